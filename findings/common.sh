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
