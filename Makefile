# schedlab: every goal installs what it misses (scripts/setup) and says so.
#   make demo    real schedulers compared on the chat workload, three minutes from nothing
#   make quick   the command, target/quick/schedlab, for daily work: built in a sixth of the time, a little slower, without mcp
#   make build   the same at target/release/schedlab: the fastest, with everything in it
#   make test    everything that has to hold: format, lints, tidy, tests, VM
#   make check   what a change needs, in minutes: format, lints, tidy, unit tests of what was changed
#   make swarm   1,000 fresh random runs of every scheduler with all checkers
#   make fuzz    every fuzz target for a minute (FUZZ_SECONDS=600 for ten, FUZZ_TARGETS=boundary for one)
#   make install the command without its symbols, manual pages and completions, below PREFIX (/usr/local)
#   make page    the laboratory as WebAssembly for browsers and node, target/site
#   make book    the book as static pages with a search, target/book
#   make release what is published: a static binary, deb, rpm, wheel and the book, in target/dist
#   make bench   simulated context switches per second of host CPU time

CARGO ?= cargo
SCHEDLAB = $(or $(CARGO_TARGET_DIR),target)/release/schedlab
QUICK = $(or $(CARGO_TARGET_DIR),target)/quick/schedlab
# Chosen: with it the demo's 18 runs take less than 5 s of CPU time, and their waits are too short to starve a task.
DEMO_WORKLOAD ?= chat:rooms=15,messages=3

.PHONY: build quick demo test check swarm fuzz page book release bench objects install uninstall clean

# Without this make's variables: a library that is built from source has a make of its own, which would take DESTDIR for its own.
build:
	@scripts/setup build
	env -u MAKEFLAGS -u MFLAGS -u DESTDIR -u PREFIX $(CARGO) build --release --locked -p schedlab

quick:
	@scripts/setup build
	env -u MAKEFLAGS -u MFLAGS -u DESTDIR -u PREFIX $(CARGO) build --profile quick --locked -p schedlab --no-default-features

objects:
	@scripts/setup build
	$(MAKE) -C schedulers

demo: quick
	$(QUICK) compare -s vanilla,o1 --set vanilla:profile=tsss --set o1:profile=d1 \
		-m p3-700 -w $(DEMO_WORKLOAD) -c 2,4,8 --runs 3
	@echo; echo "Next:"
	@echo "  $(QUICK) sim -s o1 -w cpuhog:ntasks=2,nice=0/5 -c 1   # one run; docs/tutorial.md continues from here"
	@echo "  $(QUICK) list                                         # schedulers, workloads, machines"
	@echo "  $(QUICK) new mine                                     # a scheduler of your own"

test:
	@scripts/setup test
	scripts/check

check:
	@scripts/setup build
	scripts/check changes

swarm:
	@scripts/setup build
	SCHEDLAB_SWARM_SEED=$${SCHEDLAB_SWARM_SEED:-$$(date +%s)} SCHEDLAB_SWARM_COUNT=$${SCHEDLAB_SWARM_COUNT:-1000} $(CARGO) test --locked -p schedlab-tests --test tree -- --nocapture swarm::every

fuzz:
	@scripts/setup fuzz
	scripts/fuzz $(FUZZ_TARGETS)

page:
	@scripts/setup page
	scripts/page

book:
	@scripts/setup book
	scripts/book

release:
	@scripts/setup release
	scripts/release

bench: build
	bench/switch_rate

# Where things go, by the GNU conventions; DESTDIR is for packagers.
PREFIX ?= /usr/local
bindir = $(DESTDIR)$(PREFIX)/bin
mandir = $(DESTDIR)$(PREFIX)/share/man/man1
completions = bash:bash-completion/completions/schedlab zsh:zsh/site-functions/_schedlab fish:fish/vendor_completions.d/schedlab.fish

install: build
	install -d $(bindir) $(mandir)
	install -s $(SCHEDLAB) $(bindir)/schedlab
	$(SCHEDLAB) man $(mandir)
	$(foreach one,$(completions),install -d $(dir $(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(one)))) && \
		$(SCHEDLAB) completions $(firstword $(subst :, ,$(one))) > $(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(one))) && ) true

uninstall:
	rm -f $(bindir)/schedlab $(mandir)/schedlab.1 $(mandir)/schedlab-*.1
	$(foreach one,$(completions),rm -f $(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(one))) && ) true

clean:
	$(CARGO) clean
	$(MAKE) -C schedulers clean
