# SPDX-License-Identifier: Apache-2.0
# Every target does its own set-up. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

LAB_NODES ?= 1
export LAB_NODES
export LAB_STATE ?= $(CURDIR)/.lab
PY := .venv/bin/python
# ansible's programs find each other on PATH.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONPATH := $(CURDIR)/collections:$(CURDIR)
export MOLECULE_GLOB := molecule/*/molecule.yml
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# Progress reaches a pipe or a CI log while it goes on, not at its end.
export PYTHONUNBUFFERED := 1
PLAYBOOKS := deploy.yml $(wildcard playbooks/*.yml)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: venv
venv: ## Make the controller environment in .venv
	@scripts/venv.sh .venv

.PHONY: lab-packages
lab-packages: venv ## Install the few system packages that the lab needs
	@$(PY) -m lab host-packages --install

.PHONY: lab-models
lab-models: venv ## Build the tiny models and the CPU stand-ins
	@$(PY) -m lab.models build $(LAB_STATE)/models
	@$(PY) -m lab.kernel_wheel $(LAB_STATE)/wheels

# A lab stack's own wheels; a release without a wheel for the distribution's Python gets a tag.
.PHONY: lab-stack
lab-stack: venv ## Build what another lab stack needs (STACK=lab-0.5.23)
	@$(PY) -m lab.stack_wheels $(or $(STACK),lab-0.5.9) $(LAB_STATE)/wheels

.PHONY: lab-up
lab-up: lab-packages lab-models ## Boot the lab (LAB_NODES=N for more nodes)
	@$(PY) -m lab up

.PHONY: lab-down
lab-down: venv ## Stop the lab's nodes and throw them away
	@$(PY) -m lab down

.PHONY: lab-ssh
lab-ssh: venv ## Open a shell on a lab node (NODE=lab-1)
	@$(PY) -m lab ssh $(or $(NODE),lab-1)

.PHONY: deploy
deploy: lab-up ## Deploy the engine to the lab
	ansible-playbook deploy.yml

.PHONY: lock
lock: venv ## Lock requirements.txt and the stacks anew (STACK=NAME for one)
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  requirements.in -o requirements.txt
	$(PY) scripts/lock_stacks.py $(STACK)

.PHONY: lint
lint: venv ## ruff, mypy, yamllint, ansible-lint, shellcheck, actionlint
	ruff check .
	ruff format --check .
	mypy
	yamllint --strict .
	shellcheck scripts/*.sh .ci/run
	ansible-lint --config-file .config/ansible-lint.yml
	scripts/actionlint.sh
	ansible-inventory -i inventories/example --graph >/dev/null
	for playbook in $(PLAYBOOKS); do ansible-playbook --syntax-check "$$playbook" >/dev/null; done

.PHONY: test-packages
test-packages: lab-packages
	@scripts/test_packages.sh

.PHONY: test-unit
test-unit: venv test-packages ## Unit tests
	@scripts/test_unit.sh

.PHONY: test-report
test-report: venv ## The benchmark's report in a real browser, installed where there is none
	@scripts/test_report.sh

.PHONY: benchmark-sample
benchmark-sample: venv ## A report of made-up figures, to look at: build/benchmark-sample/report.html
	@$(PY) -m tests.synthetic_benchmark build/benchmark-sample

.PHONY: test-other-core
test-other-core: venv test-packages ## Unit tests on the other supported ansible-core, where its Python is there
	@scripts/test_other_core.sh

.PHONY: test-kernels
test-kernels: venv ## The CPU stand-ins against slow references, under the lab's own torch
	@scripts/test_kernels.sh

.PHONY: test-releases
test-releases: venv ## The patches on real SGLang releases from the package index
	pytest -q tests/releases -m "releases and not releases_all"

.PHONY: test-releases-all
test-releases-all: venv ## The same on every release since 0.5.5.post3
	pytest -q tests/releases -m "releases or releases_all"

.PHONY: argument-history
argument-history: venv ## Write anew when each server argument came and went, from every release
	PYTHONPATH=collections:. python scripts/argument_history.py

.PHONY: releases-doc
releases-doc: venv ## Make the table of docs/releases.md from all published releases
	$(PY) scripts/releases_doc.py

.PHONY: bench
bench: lab-packages lab-models ## What a re-run costs on 1, 5 and 20 nodes; how long judging a release and reading a node take
	$(PY) -m benchmarks.rerun
	$(PY) -m benchmarks.second_release
	$(PY) benchmarks/release_report.py
	$(PY) benchmarks/reading.py

.PHONY: bench-switch
bench-switch: venv ## On the deployed lab node: what switches cost beside the engine's start, how soon deaths are told (about 15 minutes)
	$(PY) -m benchmarks.switch

.PHONY: test-package
test-package: venv ## Build the collection, install it into an empty path, use it from there
	scripts/test_package.sh

# Tests have a lab of their own, so that `make test` leaves the operator's alone; what is only
# downloaded or built is shared.
TEST_LAB := $(LAB_STATE)/test
TEST_ENV := LAB_STATE=$(TEST_LAB) LAB_ADDRESS_BASE=127.120.1. LAB_NODES=1

.PHONY: test-lab-state
test-lab-state: lab-packages lab-models
	@mkdir -p $(LAB_STATE)/{rootfs,wheelhouse} $(TEST_LAB)
	@for shared in rootfs wheelhouse models wheels; do ln -sfn ../$$shared $(TEST_LAB)/$$shared; done

.PHONY: test-lab
test-lab: test-lab-state ## Boot, kill and stop real nodes
	$(TEST_ENV) pytest -q tests/lab -m lab

.PHONY: test-fleet
test-fleet: test-lab-state ## Pass files on between three real nodes, and cut, damage and forbid it
	$(TEST_ENV) pytest -q tests/fleet -m fleet

.PHONY: test-deploy
test-deploy: test-lab-state ## Break deployments on a real node: bad input, interruptions, edits by hand
	$(TEST_ENV) pytest -q -x tests/deploy -m lab

# From release to release and back under load; each stack downloads some 600 MB once. UPGRADE_STEPS
# names steps to take from what the node serves, such as lab-0.5.23,rollback.
.PHONY: test-upgrade
test-upgrade: test-lab-state ## The upgrade path with requests running all the time (UPGRADE_STEPS=...)
	@for stack in lab-0.5.10.post1 lab-0.5.12.post1 lab-0.5.23; do \
	  $(PY) -m lab.stack_wheels $$stack $(LAB_STATE)/wheels; done
	$(TEST_ENV) pytest -q -x -s tests/upgrade -m upgrade

# Two real nodes as one real engine, some 1.6 GiB each: deployed, killed, taken back, stopped.
.PHONY: test-groups
test-groups: test-lab-state ## One engine over two lab nodes (docs/groups.md)
	$(TEST_ENV) LAB_NODES=2 pytest -q -x tests/groups -m groups --durations=0

# Its own lab: two engines of 1.5 GiB each and a gateway.
.PHONY: test-rolling
test-rolling: test-lab-state ## A rolling change of two engines behind a router, with requests running all the time
	$(TEST_ENV) pytest -q -x -s tests/rolling -m rolling

# What docs/operations.md lists; DRIFT names some, DRIFT_NODE=present takes the node that is up.
.PHONY: test-drift
test-drift: test-lab-state ## Change by hand what the roles own, one thing at a time (DRIFT=... for some)
	$(TEST_ENV) pytest -q tests/drift -m drift --durations=15 $(if $(DRIFT),-k "$(DRIFT)")

# What the table of docs/faults.md says, shown on the real engine; the slowest are listed at the end.
.PHONY: test-faults
test-faults: test-lab-state ## Break a serving node in every way that docs/faults.md lists (FAULT=... for some)
	$(TEST_ENV) pytest -q tests/faults -m faults --durations=15 $(if $(FAULT),-k "$(FAULT)")

.PHONY: test-faults-core
test-faults-core: test-lab-state ## The few faults that `make test` runs too
	$(TEST_ENV) pytest -q -x tests/faults -m faults_core

.PHONY: test-molecule
test-molecule: test-lab-state test-packages ## Molecule scenarios on lab nodes (SCENARIO=NAME for one)
	$(TEST_ENV) molecule test $(if $(SCENARIO),--scenario-name $(SCENARIO),--all)

.PHONY: test
test: lint test-unit test-report test-other-core test-releases test-package test-molecule test-kernels test-lab test-deploy test-faults-core ## Every check
	@echo "make test: all checks passed"

.PHONY: clean
clean: lab-down ## Remove what was built, the lab's cache included
	rm -rf .venv .venv-* .cache .lab build
