#!/usr/bin/env bash
# Installs the Debian packages that are needed to build, test and check Longstream:
#   install_packages.sh            what every target of the Makefile needs
#   install_packages.sh services   what only `make test-services` needs beside these
#   install_packages.sh fleet      what only `make fleet` needs beside these
#   install_packages.sh kubernetes what only `make kube-check` needs beside these
#   install_packages.sh kube-proof what only `make kube-proof` needs beside these
# If no package is missing, it prints nothing and is fast (one dpkg-query).
set -euo pipefail

packages=(
  # The build needs these tools.
  cmake ninja-build g++ clang ccache git
  # Checks: the formatter, the linter of shell scripts, and clang's sanitizer runtime.
  # tools/check/tidy.py installs the linter of C++.
  clang-format shellcheck libclang-rt-14-dev
  # Service: RPC, messages, status and synchronisation types, metrics.
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libprotoc-dev
  libabsl-dev prometheus-cpp-dev
  # The HTTP API: Boost.Beast parses its requests.
  libboost-dev
  # Tokenizer, configuration, command line.
  libpcre2-dev libicu-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev
  # Store of sessions, its encryption, credentials.
  libsqlite3-dev libpq-dev libssl-dev libsodium-dev libzstd-dev zlib1g-dev
  # Tests and benchmarks; Boost's fibers run CUDA kernels on the CPU, spin searches protocols.
  libgtest-dev libgmock-dev libbenchmark-dev libboost-context-dev openssl spin
  # The tests of stores start PostgreSQL's server.
  postgresql
  # Demo, golden values, checks, and the tests of the Python package.
  python3 python3-venv python3-grpcio python3-protobuf curl ca-certificates
)
# Servers and browsers that tests with the label `services` start. Envoy comes
# from PyPI (tests/e2e/envoy).
services=(
  chromium fonts-dejavu-core  # the page of a comparison (tests/client/compare)
  prometheus                  # of a local fleet (tests/e2e/envoy)
)

# Servers of a local fleet (deploy/local). Envoy comes from PyPI here too.
fleet=(
  prometheus
)

# Its promtool tests the alerts of deploy/kubernetes.
kubernetes=(
  prometheus
)

# A control plane of Kubernetes: its database, and what builds the rest from Debian's source package
# (deploy/proof/build_control_plane.sh).
kube_proof=(
  etcd-server golang-1.19-go dpkg-dev prometheus
  iproute2 python3-yaml  # networks of pods, the objects
)

case ${1-} in
  "") ;;
  services) packages=("${services[@]}") ;;
  fleet) packages=("${fleet[@]}") ;;
  kubernetes) packages=("${kubernetes[@]}") ;;
  kube-proof) packages=("${kube_proof[@]}") ;;
  *) echo "install_packages.sh: unknown list '$1'; there are services, fleet, kubernetes and kube-proof" >&2; exit 2 ;;
esac
((${#packages[@]})) || exit 0

# dpkg-query prints nothing to standard output for an unknown name. So the missing packages are the
# packages of the list above that dpkg-query does not report as installed.
installed=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
  sed -n -E 's/^([^ :]+)(:[^ ]+)? installed$/\1/p') || true

missing=()
for package in "${packages[@]}"; do
  [[ $'\n'"$installed"$'\n' == *$'\n'"$package"$'\n'* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "install_packages.sh: run as root, or install sudo; missing: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi

echo "Installing missing packages: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq
     -o Dpkg::Use-Pty=0 -o APT::Update::Error-Mode=any -o Acquire::Retries=3)
"${apt[@]}" update
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}" >/dev/null
