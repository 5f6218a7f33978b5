# Short names for the usual commands; CMakePresets.json and tools/ hold the substance.
.PHONY: demo test build lint clean help
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
QUESTION ?= Why is the sky blue?

demo: build  ## chat with a small real model (downloaded once, 93 MB); answers one question where there is no terminal
	@model=$$(tools/fetch_demo_model | tail -n 1) && [ -n "$$model" ] && \
	if [ -t 0 ]; then exec build/release/phidias chat -m "$$model"; \
	else exec build/release/phidias generate -m "$$model" --chat -p "$(QUESTION)" -n 120 --stats; fi

test: setup  ## build the tests and run them
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev -j $(JOBS) --output-junit tests.xml

build: setup  ## build the release program, build/release/phidias
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

.PHONY: setup
setup:
	@tools/setup

lint:  ## check format, layers, sizes and words of the sources
	@tools/setup --ci
	tools/check

clean:  ## remove what was built; downloaded models stay
	rm -rf build

help:
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## */  make \1\t/' | expand -t 16
