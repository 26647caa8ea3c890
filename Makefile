# The front door. Each step prints what it does, and does nothing the second time.
#
#   SITE=local              folder below site-config/ or lab/sites/
#   STACK=spack             only this stack of the site
#   DOC=000|001|..|004|all  paper: the document whose figures are measured (default: 000)
#   PROFILE=smoke|full      how much of the suite (default: full)
#   DEADLINE=2h             what is not begun by then is not run, what runs is cancelled
#   REFRAME_ARGS='...'      further arguments of reframe
#   PYTEST_ARGS='...'       further arguments of pytest
#   PYTHON=python3.12       the interpreter for .venv (default: the first that can run ReFrame)
#   YES=1                   install missing packages, and compile programs, without asking
#   SPACK_ARGS='...'        further arguments of spack install, such as --cache-only
#   MACHINES=uml            vcluster-up: each node has a kernel of its own, with verbs
#   MACHINES=vm             vcluster-up: two virtual machines with two sockets each, slow
#   IMAGE=build/assay.sif   the image that is built, tested

# With -i, a run that failed would end with 0.
ifneq (,$(findstring i,$(filter-out --%,$(firstword -$(MAKEFLAGS)))))
$(error make -i hides how a run ended: type it without -i)
endif

# Whatever is given is text: make does not expand it, and no shell reads it. Recipes take it from the
# environment. ci/words.sh makes arguments of it.
IMAGE = build/assay.sif
GIVEN = SITE STACK DOC PROFILE DEADLINE PYTHON YES MACHINES MACHINE DISTRO IMAGE \
	REFRAME_ARGS PYTEST_ARGS SPACK_ARGS CALIBRATE_ARGS VCLUSTER_ARGS LOCK_ARGS RELEASE_ARGS
$(foreach name,$(GIVEN),$(if $(filter command environment,$(origin $(name))),\
	$(eval override $(name) := $$(value $(name)))))

SITE ?= local
# The sites of the emulated cluster and of the emulated GPU.
LAB = $(filter vcluster vcluster-uml vcluster-vm vgpu,$(SITE))
ON_CLUSTER = $(filter-out vgpu,$(LAB))
# The links of 1 Gbit/s take ten minutes for a run that a real cluster finishes in one. The emulated
# GPUs have no gdrcopy, which the full profile demands.
PROFILE ?= $(if $(LAB),smoke)

export ASSAY_STACK = $(STACK)
ifdef DEADLINE
export ASSAY_DEADLINE = $(DEADLINE)
endif
# Modules of a cluster often set these. Packages of another Python would leak into .venv.
unexport PYTHONPATH PYTHONHOME

.PHONY: help asked setup system programs venv acceptance paper calibrate vcluster-up vcluster-down vgpu report test test-all fresh lint width docs release spack lock image image-test pylock clean
.NOTPARALLEL:

help:
	@echo 'make acceptance  set up, run the suite on this machine, write results/report.html'
	@echo 'make paper       measure what the figures of a validation show, and draw them: results/paper/'
	@echo 'make report      write the report of the last run again'
	@echo 'make test        set up, then linters, type checker, and the tests that take minutes'
	@echo 'make test-all    the same with all tests: installs Slurm, builds Apptainer and an image'
	@echo 'make fresh       run the command lines of the README on bare Debian roots (DISTRO=forky)'
	@echo 'make lint        linters and type checker only'
	@echo 'make docs        build the documentation as a site: build/docs/index.html'
	@echo 'make release     wheel, sources, pages, SBOM and checksums of the last commit: build/release/'
	@echo 'make setup       what acceptance needs: system stack, .venv, Python ports of OSU, programs'
	@echo 'make programs    compile OSU, HPL, HPCG, BT-IO, IOR, STREAM, mpiGraph (ASSAY_SOURCES=folder or URL)'
	@echo 'make venv        .venv only, from requirements/run.lock'
	@echo 'make spack       install the Spack stack of SITE exactly as its lock says'
	@echo 'make lock        solve the Spack lock of SITE anew, and show what changed'
	@echo 'make image       build the image of the suite, from the last commit: docs/containers.md'
	@echo 'make image-test  check the image: labels and locks against this checkout, and each program'
	@echo 'make calibrate   measure SITE without judging, and write what it is judged by'
	@echo 'make vcluster-up    start a Slurm cluster of four nodes on this machine, for SITE=vcluster'
	@echo 'make vcluster-down  end it'
	@echo 'make vgpu        build the emulated GPU, and install UCX for it, for SITE=vgpu'
	@echo 'make pylock      solve the Python locks anew from pyproject.toml (LOCK_ARGS=--upgrade)'
	@echo 'make width       what a reader must open for a test, a site, a page: each with its budget'
	@echo 'make clean       remove .venv, .cache (with the Spack stack) and caches of tools; results/ stays'
	@sed -n 's/^#   /  /p' Makefile

# A typing error is found before the set-up. The emulated cluster has results of its own.
ON_SITE_RESULTS = ASSAY_RESULTS="$${ASSAY_RESULTS:-$$PWD/results/vcluster}"
asked:
	@$(if $(ON_SITE),$(ON_SITE_RESULTS)) ci/words.sh REFRAME_ARGS ci/asked.sh >/dev/null

# These sites use packages of the distribution. Others bring their own stack.
setup: $(if $(or $(LAB),$(filter local,$(SITE))),system) venv $(filter vgpu,$(SITE))
	@ci/fetch-osu-py.sh
	@$(if $(filter local,$(SITE)),ci/programs.py --ask)

system:
	@ci/system-stack.sh

programs:
	@ci/programs.py

venv:
	@ci/setup-venv.sh run

# Measurements run where the site submits its jobs: for the emulated cluster, on its login machine.
ON_SITE = $(if $(ON_CLUSTER),lab/vcluster/vcluster run login -- \
	env $(ON_SITE_RESULTS))

acceptance: asked setup
	@$(if $(filter vcluster,$(SITE)),[ $(CALIBRATED) -nt "$(UP)" ] || $(MAKE) calibrate || \
		{ echo 'calibrate: a launch was disturbed or failed; once more'; $(MAKE) calibrate; })
	@ci/words.sh REFRAME_ARGS $(ON_SITE) ci/acceptance.sh

# This target judges as usual, but does not calibrate first.
paper: asked setup
	@ci/setup-venv.sh studies
	@ci/words.sh REFRAME_ARGS $(or $(ON_SITE),env) PAPER="$${DOC:-000}" ci/acceptance.sh

# The emulated cluster is judged by what it did since its start, so each start needs new references.
# The owner of the checkout writes them. Only its links are judged.
CALIBRATED = lab/sites/vcluster/calibrated.yaml
UP = $${ASSAY_VCLUSTER:-/var/tmp/assay-vcluster}/cluster.json
WITHOUT_PEAK = $(if $(filter vcluster,$(SITE)),--without-peak 'vcluster itself sets the rate of its links')
FOLDER = $(if $(LAB),--folder lab/sites)
LINKS = --system vcluster:inter-node -n 'Tournament|Census|NetPipe.*=tcp'
CALIBRATE_ARGS ?= $(if $(filter vcluster,$(SITE)),-- $(LINKS))

calibrate: asked setup
	@$(if $(filter vcluster,$(SITE)),rm -f $(CALIBRATED))
	@ci/words.sh CALIBRATE_ARGS $(ON_SITE) .venv/bin/assay calibrate --site "$$SITE" $(FOLDER) \
		--profile "$${PROFILE:-full}" $${STACK:+--stack "$$STACK"} \
		$(if $(filter vcluster,$(SITE)),--launches 6 --dry-run) $(WITHOUT_PEAK)
	@$(if $(filter vcluster,$(SITE)),.venv/bin/assay calibrate --site "$$SITE" $(FOLDER) $(WITHOUT_PEAK) \
		--from "$$(ls -t results/vcluster/reports/run-report-*.json | head -n 1)")

vcluster-up: system venv $(if $(findstring --gpus,$(VCLUSTER_ARGS)),vgpu)
	@lab/vcluster/packages.sh $(if $(filter uml vm,$(MACHINES)),--$(MACHINES)) \
		$(if $(findstring --shared,$(VCLUSTER_ARGS)),--shared)
	@$(if $(filter uml,$(MACHINES)),lab/vcluster/kernel.sh >/dev/null)
	@$(if $(filter vm,$(MACHINES)),lab/vcluster/vm-kernel.sh >/dev/null)
	@ci/words.sh VCLUSTER_ARGS lab/vcluster/vcluster up $${MACHINES:+--machines "$$MACHINES"}

vcluster-down:
	@lab/vcluster/vcluster down

vgpu: venv
	@command -v gcc >/dev/null || WHO=vgpu ci/packages.sh gcc libc6-dev
	@lab/vgpu/build.sh
	@$(if $(filter vgpu-stack,$(STACK)),:,\
		v=$$(echo "$$STACK" | sed -n '/^ucx-/ { s///; s/-/./g; p }') && lab/vgpu/ucx.sh $${v:+"$$v"})

report:
	@.venv/bin/assay report

# Without a compiler, the tests of the emulated GPU are skipped.
TEST = ci/setup-venv.sh dev && ci/fetch-osu-py.sh && \
	{ ! command -v gcc >/dev/null || { lab/vgpu/build.sh && lab/vgpu/ucx.sh; }; }

test: system
	@$(TEST)
	@ci/words.sh PYTEST_ARGS ci/test.sh --short

test-all: system
	@ci/test-packages.sh
	@$(TEST)
	@ci/words.sh PYTEST_ARGS ci/test-all.sh

# Needs root. DISTRO=trixie is Debian 13, forky testing; MACHINE=smoke is the short profile alone.
DISTRO ?= bookworm
MACHINE ?= $(if $(filter-out bookworm,$(DISTRO)),smoke)
fresh:
	@ci/words.sh MACHINE ci/fresh.py --release "$$DISTRO"

lint:
	@ci/setup-venv.sh dev
	@ci/lint.sh

width: venv
	@.venv/bin/python ci/width.py

# A warning is an error: a link to nothing, a page that no other page leads to.
docs:
	@ci/setup-venv.sh dev
	@.venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env \
		--doctree-dir build/doctrees docs build/docs
	@echo 'docs: build/docs/index.html'

release:
	@ci/setup-venv.sh dev
	@ci/words.sh RELEASE_ARGS .venv/bin/python ci/release.py

LOCK = ci/words.sh LOCK_ARGS .venv/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.10 \
	--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --no-strip-extras \
	--custom-compile-command 'make pylock'

pylock:
	@ci/setup-venv.sh dev
	$(LOCK) --extra checkout --output-file requirements/run.lock
	$(LOCK) --extra checkout --extra studies --constraints requirements/run.lock \
		--output-file requirements/studies.lock
	$(LOCK) --extra checkout --extra studies --extra dev --constraints requirements/studies.lock \
		--output-file requirements/dev.lock

# These have no default site, because `local` has no Spack environment.
SPACK_SITE = $(if $(filter file,$(origin SITE)),SITE='')

spack:
	@$(SPACK_SITE) ci/words.sh SPACK_ARGS ci/spack-install.sh

lock:
	@$(SPACK_SITE) ci/spack-relock.sh

image: venv
	@ci/fetch-osu-py.sh
	@ci/image.sh "$$IMAGE"

image-test:
	@ci/image-test.sh "$$IMAGE"

clean:
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build src/*.egg-info
	find src reframe site-config studies tests lab -name __pycache__ -type d -prune -exec rm -rf {} +

# Behind all defaults: `?=` takes a variable that is exported for one that is set.
export $(GIVEN)
