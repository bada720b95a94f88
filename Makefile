# Commands for daily work. Each command installs the packages that it needs and builds in
# build/<preset>.
.DEFAULT_GOAL := help
.PHONY: help demo fleet chaos eval compare test test-services hostile-soak faults bench golden tokenizer-parity config-parity compare-parity check sim spin tidy bits fuzz asan tsan kube-check kube-proof http-clients \
        gpu-pack gpu-check gpu-peers install packages envoy release

PREFIX ?= /usr/local
# The number of parallel jobs of a build, for example: make test JOBS=8.
JOBS ?= $(shell nproc)
# Arguments of `make bench`. KERNEL_BENCH is for the benchmarks of kernels (options of Google
# Benchmark), LAYER_BENCH for kinds of layers (backends_bench), MODEL_BENCH for whole models
# (model_bench --help) and SERVICE_BENCH for the service (tools/bench/service.py --help). The
# defaults take about 20 minutes on two idle cores and need 4 GB of memory.
# This run takes two minutes:
#   make bench KERNEL_BENCH='--benchmark_filter=^Project/bf16 --benchmark_min_time=0.05' \
#     LAYER_BENCH='--rounds 1' MODEL_BENCH='--plan dense --depths 0 --rounds 1' \
#     SERVICE_BENCH='--streams 1 --rounds 1 --prefill 0'
# For hybrids at greater depth: MODEL_BENCH='--plan hwfa2,hypenet,chunked --depths 0,32768,131072'.
KERNEL_BENCH ?= --benchmark_min_time=0.2
LAYER_BENCH ?= --rounds 2
MODEL_BENCH ?= --weights bf16,int8,int4 --threads 1,0 --depths 0,4096,16384 --prefill 256 --rounds 1
SERVICE_BENCH ?= --rounds 2 --prefill 4096 --prefill-rounds 1
export KERNEL_BENCH LAYER_BENCH MODEL_BENCH SERVICE_BENCH

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: packages  ## Start the server with the three demo models, stream from each, print a table.
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target demo_programs
	@tools/demo.sh

# FLEET holds flags (deploy/local/fleet.py --help), for example: make fleet FLEET='--replicas 2'.
FLEET ?=
fleet: packages envoy  ## Run 4 replicas on one database, Envoy and Prometheus until Ctrl-C: docs/local-fleet.md.
	@tools/install_packages.sh fleet
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target demo_programs longstream-gateway
	@python3 -B deploy/local/fleet.py $(FLEET)

# CHAOS holds flags (build/release/tests/fleet_chaos --help), for example: make chaos CHAOS='--failover'.
CHAOS ?=
chaos: packages envoy  ## Use a fleet while its replicas, connections and database fail (5 minutes); count what is lost.
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target fleet_chaos
	@build/release/tests/fleet_chaos --logs build/chaos $(CHAOS) build/release/bin/longstream-server models/demo

eval: packages  ## Measure the demo models past their training length: docs/length-extrapolation.md.
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target demo_programs
	@tools/eval.sh

compare: packages  ## Compare the demo models on held-out text (2 minutes): build/compare/report.html.
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target demo_programs
	@tools/compare.sh

test: release  ## Build the release preset and run every test but those that need Envoy or Chromium.
	@ctest --preset release

# These tests have the ctest label `services`.
test-services: release envoy http-clients  ## Run the tests that need Envoy, Chromium or the clients of OpenAI and Anthropic (downloads them, 260 MB).
	@tools/install_packages.sh services
	@cmake --build --preset services --parallel $(JOBS)
	@ctest --preset services

# HOSTILE_SOAK holds further flags (build/release/tests/hostile_soak --help). The bound is about
# speed, so run it on an idle machine.
HOSTILE_SOAK ?=
hostile-soak: release  ## Attack a server for 10 minutes; honest clients must keep 0.9 of their speed.
	@build/release/tests/hostile_soak --least-kept 0.9 $(HOSTILE_SOAK) \
	  build/release/bin/longstream-server models/demo

# The same tests run in `make test`, for a few seconds each.
faults: release  ## Kill servers at 200 points and at random for 2 minutes, fail their disks; count lost tokens and turns.
	@LONGSTREAM_FAULT_ROUNDS=200 LONGSTREAM_FAULT_SECONDS=120 build/release/tests/faults_test
	@LONGSTREAM_PYTHON_CONVERSATIONS=100 ctest --test-dir build/release -R '^python_random_kills_test$$' --verbose

# To print each event of one seed: build/release/tests/ownership_simulation --seed N
SEEDS ?= 200000
FIRST ?= 1
sim: packages  ## Simulate fleets with faults over SEEDS=200000 seeds: docs/fleet.md.
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target ownership_simulation
	@build/release/tests/ownership_simulation --seeds $(SEEDS) --first $(FIRST)

spin: packages  ## Search the model of session ownership with spin (4 minutes), then its mutations.
	@python3 -B tests/fleet/spin_test.py --all

bench: release  ## Run the benchmarks (20 minutes): tables, and JSON in build/release/figures.
	@tools/bench/all.sh build/release build/release/figures

golden: packages  ## Compute the golden values and reference logits again (downloads PyTorch).
	@tools/golden/make_golden.sh

# To compare other texts: make tokenizer-parity SEED=21. To compare the tokenizers of model
# directories: DIRECTORIES="DIR ...".
SEED ?= 20
DIRECTORIES ?=
tokenizer-parity: packages  ## Compare each tokenizer with a library from PyPI on 10 000 texts.
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target tokenizer_parity_test
	@tools/golden/tokenizer_parity.sh --seed $(SEED) $(addprefix --directory ,$(DIRECTORIES))

# To compare one family and leave the page as it is: FAMILIES=qwen3
FAMILIES ?=
config-parity: packages  ## Compare how config.json is read with transformers (10 minutes): docs/config-parity.md.
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target checkpoint_logits
	@tools/golden/config_parity.sh $(addprefix --family ,$(FAMILIES))

compare-parity: packages  ## Compare the statistics of comparisons with SciPy's and paired-eval's (3 minutes).
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target compare_intervals
	@$$(tools/setup_venv.sh build/venv-compare tools/golden/compare/requirements.txt) \
	  tools/golden/compare/compare_statistics.py --program build/release/tests/compare_intervals

check: release  ## Run the checks: format, shell scripts, layers, names, lengths, pages, protos, symbols, lint of changes.
	@tools/check/run_all.sh

# KUBE_CHECK holds flags (deploy/check/run_all.py --help).
KUBE_CHECK ?=
kube-check: packages  ## Check images, Kubernetes objects, the chart and the alerts of deploy/, without a cluster.
	@tools/install_packages.sh kubernetes
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target installed
	@cmake --install build/release --prefix build/kubernetes-image --strip >/dev/null
	@python=$$(tools/setup_venv.sh build/venv-kubernetes deploy/check/requirements.txt) && \
	  $$python -B deploy/check/run_all.py --image build/kubernetes-image $(KUBE_CHECK)

# KUBE_PROOF holds flags (deploy/proof/kube_proof.py --help). It needs root, because it makes namespaces,
# and Debian's Python, which has gRPC.
KUBE_PROOF ?=
kube-proof: packages envoy  ## Let a real control plane of Kubernetes scale a fleet 1 → 4 → 1 under load (a quarter of an hour, then 11 minutes).
	@tools/install_packages.sh kube-proof
	@deploy/proof/build_control_plane.sh build/kube-proof
	@tools/setup_venv.sh build/venv-kube-proof deploy/proof/requirements.txt >/dev/null
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target demo_programs fleet_load
	@/usr/bin/python3 -B deploy/proof/kube_proof.py $(KUBE_PROOF)

# `make check` only reads the sources that changed in the day before HEAD, as CI does. To read the
# changes since another commit: tools/check/tidy.py --base COMMIT. To read the tests:
# tools/check/tidy.py tests.
tidy: release  ## Run clang-tidy over all shipped sources.
	@tools/check/tidy.py

# Each fuzz test runs for SECONDS here. In `make asan` it runs for at least 10 seconds.
SECONDS ?= 60
fuzz: packages  ## Run each fuzz test for SECONDS=60 under ASan and UBSan.
	@cmake --preset asan -D LONGSTREAM_BUILD_GRPC=OFF
	@cmake --build --preset asan --parallel $(JOBS) --target fuzz_tests
	@for test in build/asan/tests/*_fuzz_test; do \
	  echo "=== $$test"; LONGSTREAM_FUZZ_SECONDS=$(SECONDS) "$$test" || exit 1; \
	done

# Example: make bits OLD=../before/build/release. BITS holds further flags of tools/check/bits.sh.
OLD ?=
BITS ?=
bits: release  ## Check that two builds give the same bits: OLD=BUILD is compared with this build.
	@tools/check/bits.sh $(BITS) $(OLD) build/release

asan: packages  ## Run the tests that need no gRPC under AddressSanitizer and UBSan.
	@cmake --preset asan -D LONGSTREAM_BUILD_GRPC=OFF
	@cmake --build --preset asan --parallel $(JOBS)
	@ctest --preset asan

tsan: packages  ## Run the tests of the engine, the sessions and the thread pool under ThreadSanitizer.
	@cmake --preset tsan
	@cmake --build --preset tsan --parallel $(JOBS)
	@ctest --preset tsan

gpu-pack: release  ## Pack sources, tests and the demo for a GPU machine without packages: build/gpu-pack.
	@tools/gpu/pack.sh

gpu-check:  ## On a GPU machine: build, test, sanitise and measure the CUDA backends.
	@tools/gpu/check.sh

gpu-peers:  ## On a GPU machine, after gpu-check: measure PyTorch and others; print ratios.
	@python3 tools/gpu/peers.py --ours build/gpu/bench.json --json build/gpu/peers.json

install: release  ## Install the release build under PREFIX (/usr/local).
	@cmake --install build/release --prefix $(PREFIX)

packages:
	@tools/install_packages.sh

envoy: packages
	@tools/setup_venv.sh build/venv-services tests/e2e/envoy/requirements.txt >/dev/null

http-clients: packages
	@tools/setup_venv.sh build/venv-http-clients tests/e2e/http/requirements.txt >/dev/null

release: packages
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS)
