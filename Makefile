# The commands of every day. What they do in detail is in CONTRIBUTING.md; CMake does the building.
JOBS ?= $(shell nproc)
NICE ?=
CTEST_ARGS ?=

.PHONY: build demo test bench-peers check-peers check-clients long load lint format asan tsan fuzz fuzz-nightly golden deps clean

# The program alone, at build/firstlight.
build: deps build/build.ninja
	$(NICE) cmake --build build --target firstlight -j $(JOBS)

deps:
	@tools/install_deps.sh core

build/build.ninja: CMakePresets.json
	cmake --preset release

# A released model from its package to a checked answer (docs/add_a_model.md explains the report).
demo: build
	tools/demo.sh build

# Everything, fast tests first. The last lines are those of ctest.
test: deps build/build.ninja
	$(NICE) cmake --build build -j $(JOBS)
	cd build && $(NICE) ctest -j $(JOBS) --output-on-failure $(CTEST_ARGS)

# We and our peers in one run: build/bench-peers.json.
bench-peers: build
	python3 tools/bench_peers.py

# Our numbers beside llama.cpp's: perplexity and greedy tokens on the same files.
check-peers: build
	python3 tests/peers/compare_llamacpp.py

# A million tokens through the engine, against float64 and the plan of memory (docs/long_context.md): tens of minutes.
long: deps build/build.ninja
	$(NICE) cmake --build build --target long_million_test -j $(JOBS)
	FL_LONG=million build/tests/long/long_million_test

# Ten thousand requests in a thousand streams at three times the measured rate (a few minutes).
load: build
	$(NICE) python3 tests/e2e/load_test.py build/firstlight --requests 10000 --prompts 200 --streams 1000 --json build/load.json
# The clients that others wrote, in an environment of their own (CLIENTS=VENV: one that has openai and aiperf already).
CLIENTS ?= build/clients
check-clients: build
	@test -x $(CLIENTS)/bin/aiperf || { python3 -m venv $(CLIENTS) && $(CLIENTS)/bin/pip install -q openai aiperf; }
	sh tests/clients/curl_test.sh build/firstlight
	FIRSTLIGHT_CLIENTS=$(CLIENTS) $(CLIENTS)/bin/python -B tests/clients/openai_test.py build/firstlight
	FIRSTLIGHT_CLIENTS=$(CLIENTS) $(CLIENTS)/bin/python -B tests/clients/aiperf_test.py build/firstlight

# Formatting, static analysis of what changed (LINT=all: of everything), and the checks of the tree.
lint:
	@tools/install_deps.sh dev
	tools/lint.sh $(LINT)

format:
	git ls-files -- src tests | grep -E '\.(h|cc)$$' | grep -v '^tests/tools/fixtures/' | xargs clang-format -i

# Readers, engine and runtime under the sanitizers (SAN_TESTS: a ctest -R pattern).
asan:
	cmake --preset asan
	$(NICE) cmake --build build-asan -j $(JOBS)
	cd build-asan && ctest -j $(JOBS) -L fast --output-on-failure $(if $(SAN_TESTS),-R '$(SAN_TESTS)')

tsan:
	cmake --preset tsan
	$(NICE) cmake --build build-tsan -j $(JOBS)
	cd build-tsan && ctest -j $(JOBS) -L fast --output-on-failure -R '$(or $(SAN_TESTS),^(base|kernels|runtime|engine|server)_)'

# libFuzzer: half a minute per reader, or half an hour in the night. `make test` replays a small budget anyway.
fuzz:
	@tools/install_deps.sh dev
	tools/fuzz.sh 30

fuzz-nightly:
	@tools/install_deps.sh dev
	tools/fuzz.sh 1800

# Goldens come from independent references in a Python environment of their own; their scripts say how.
golden:
	@sed -n '/^## Goldens/,/^## /p' CONTRIBUTING.md | sed '$$d'

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz
