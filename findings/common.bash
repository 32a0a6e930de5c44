# shellcheck shell=bash
# What every script of this folder shares; it is sourced, not run.
#
# Packages are unpacked below a temporary folder, which goes when the script ends; the system stays as it was.
# Exit code: 0 the behaviour is as stated, 1 it has changed, 2 a package could not be had.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
lib=$root/usr/lib/x86_64-linux-gnu

# Unpacks Debian packages, each given as NAME=VERSION, below $root.
deb() {
	mkdir -p "$work/debs" "$root"
	for pinned in "$@"; do
		(cd "$work/debs" && apt-get download "$pinned" >>"$work/apt.log" 2>&1) || {
			echo "cannot download $pinned (Debian 12); run apt-get update first:" >&2
			tail -n 3 "$work/apt.log" >&2
			exit 2
		}
	done
	for file in "$work"/debs/*.deb; do
		dpkg -x "$file" "$root"
	done
	rm -rf "$work/debs"
	export LD_LIBRARY_PATH=$lib:$root/lib/x86_64-linux-gnu
}

# Unpacks a Debian package, given as NAME=VERSION, and all that it needs except the C library, below $root.
deb_with_dependencies() {
	mkdir -p "$work/debs/partial" "$root"
	: >"$work/status"
	apt-get install -y --no-install-recommends --download-only -o Debug::NoLocking=1 -o Dir::State::status="$work/status" \
		-o Dir::Cache::archives="$work/debs" "$1" >"$work/apt.log" 2>&1 || {
		echo "cannot download $1 (Debian 12); run apt-get update first:" >&2
		tail -n 3 "$work/apt.log" >&2
		exit 2
	}
	rm -f "$work"/debs/libc6_*.deb
	for file in "$work"/debs/*.deb; do
		dpkg -x "$file" "$root"
	done
	rm -rf "$work/debs"
	export LD_LIBRARY_PATH=$lib:$root/lib/x86_64-linux-gnu
}

# Installs Python packages, each given as NAME==VERSION, in an environment of their own: $work/venv.
pip_install() {
	[ -d "$work/venv" ] || python3 -m venv "$work/venv"
	"$work/venv/bin/pip" --quiet --disable-pip-version-check install "$@" >&2 || exit 2
}

# States one fact: what it is about, the text that was seen when the script was written, and the text seen now.
expect() {
	if [ "$2" != "$3" ]; then
		printf 'CHANGED  %s\n  was: %s\n  now: %s\n' "$1" "$2" "$3"
		exit 1
	fi
	printf 'as seen  %s: %s\n' "$1" "$3"
}

# Builds $work/btf-to-c with libbpf 1.1.2: prints the types of a file with BTF as C, like `bpftool btf dump format c`.
build_btf_to_c() {
	libbpf=1:1.1.2-0+deb12u1
	deb "libbpf1=$libbpf" "libbpf-dev=$libbpf" libelf1=0.188-2.1 libdw1=0.188-2.1
	cat >"$work/btf-to-c.c" <<-'C'
	#include <stdarg.h>
	#include <stdio.h>
	#include <bpf/btf.h>

	static void print(void *context, const char *format, va_list arguments)
	{
		(void)context;
		vprintf(format, arguments);
	}

	int main(int argc, char **argv)
	{
		struct btf *btf = argc == 2 ? btf__parse(argv[1], NULL) : NULL;
		struct btf_dump *dump = btf ? btf_dump__new(btf, print, NULL, NULL) : NULL;
		if (!dump)
			return 1;
		for (__u32 type = 1; type < btf__type_cnt(btf); type++)
			if (btf_dump__dump_type(dump, type))
				return 1;
		return 0;
	}
	C
	gcc -o "$work/btf-to-c" "$work/btf-to-c.c" -I"$root/usr/include" -L"$lib" -Wl,-rpath-link,"$LD_LIBRARY_PATH" -lbpf
}
