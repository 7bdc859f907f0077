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
lint: venv ## ruff, mypy, yamllint, ansible-lint, shellcheck
	ruff check .
	ruff format --check .
	mypy
	yamllint --strict .
	ansible-lint --config-file .config/ansible-lint.yml
	for playbook in $(PLAYBOOKS); do ansible-playbook --syntax-check "$$playbook" >/dev/null; done

.PHONY: test-unit
test-unit: venv ## Unit tests
	pytest -q

.PHONY: test-package
test-package: venv ## Build the collection, install it into an empty path, use it from there
	scripts/test_package.sh

.PHONY: clean
clean: lab-down ## Remove what was built, the lab's cache included
	rm -rf .venv .venv-* .cache .lab build
