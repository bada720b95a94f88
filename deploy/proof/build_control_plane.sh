#!/usr/bin/env bash
# Builds kube-apiserver, kube-controller-manager and kube-scheduler from Debian's source package
# kubernetes (1.20, with its dependencies), with Debian's Go 1.19, into DIR/bin:
#   build_control_plane.sh DIR
# It takes a quarter of an hour on two cores, and 4 GiB while it builds. It does nothing if the programs
# are there. GOFLAGS=-p=1 builds one package at a time.
set -euo pipefail

version='1.20.5+really1.20.2-1.1+deb12u1'
programs=(kube-apiserver kube-controller-manager kube-scheduler)
go=/usr/lib/go-1.19/bin/go

mkdir -p "$1"
to=$(cd "$1" && pwd)
stamp=$to/bin/version
[[ ! -f $stamp || $(<"$stamp") != "$version" ]] || exit 0

# The mirrors of this machine's packages, in a folder of our own: its lists stay as they are.
lists=$to/apt
mkdir -p "$lists/lists/partial" "$lists/archives/partial" "$to/bin"
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
  'Origin: Debian' | sort -u >"$lists/sources.list"
[[ -s $lists/sources.list ]] || { echo "build_control_plane.sh: run apt-get update first" >&2; exit 1; }
apt=(apt-get -qq -o "Dir::Etc::SourceList=$lists/sources.list" -o Dir::Etc::SourceParts=-
     -o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists" -o APT::Sandbox::User=root
     -o Acquire::Retries=3)

source=$to/go/src/k8s.io/kubernetes  # where Go without modules looks for it
if [[ ! -d $source ]]; then
  echo "Downloading the sources of Kubernetes $version"
  "${apt[@]}" update
  (cd "$to" && "${apt[@]}" source --download-only "kubernetes=$version")
  mkdir -p "$to/go/src/k8s.io"
  dpkg-source --no-check -x "$to"/kubernetes_*.dsc "$to/source" >/dev/null
  mv "$to/source" "$source"
fi

cd "$source"
export GO111MODULE=off GOPATH=$to/go GOCACHE=$to/go/cache CGO_ENABLED=0 GOTOOLCHAIN=local
if [[ ! -f pkg/generated/openapi/zz_generated.openapi.go ]]; then
  echo "Generating the schemas of the API"
  "$go" build -o "$to/go/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  # The packages that ask for it, as in Makefile.generated_files.
  packages=$(find pkg cmd plugin vendor/k8s.io/ staging/src/k8s.io -name '*.go' -print0 |
    xargs -0 grep -l '^// *+k8s:openapi-gen=' | xargs -n1 dirname |
    sed -e 's|^staging/src/|vendor/|' -e 's|^|k8s.io/kubernetes/|' |
    grep -Ev '/vendor/k8s.io/(code-generator|sample-apiserver|kube-openapi)/|/cmd/' | LC_ALL=C sort -u |
    paste -sd,)
  "$to/go/openapi-gen" --logtostderr --go-header-file vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
    --input-dirs "$packages" --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --output-file-base zz_generated.openapi --report-filename "$to/go/violations"
fi

# The version that the programs tell: the API server and its clients read numbers in it.
number=${version#*really}
number=${number%%-*}
flags=
for package in client-go/pkg/version component-base/version; do
  for value in "gitVersion=v$number" gitMajor=1 gitMinor=20; do
    flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.$value"
  done
done
for program in "${programs[@]}"; do
  echo "Building $program"
  "$go" build -ldflags "-s -w$flags" -o "$to/bin/$program" "./cmd/$program"
done

echo "$version" >"$stamp"
rm -rf "$to/go" "$lists" "$to"/kubernetes_*
