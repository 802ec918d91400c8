#!/bin/sh
# packages.sh BUILD FOLDER: fetches into FOLDER the Debian packages that `make setup` would install on a fresh system of
# this release and architecture, with all that they need, and an index of them, from which setup.sh installs without a
# network. Needs no root.
build=$1 folder=$2 program=packages
. tests/grader/begin.sh
command -v apt-get >/dev/null || refuse "no apt-get" "OFFLINE=1 needs Debian or Ubuntu, as the lab's machines do"
wanted=$(sh .make/probe.sh --all-packages | tr '\n' ' ')
# As if nothing were installed: what is there here may be missing there.
: >"$work/status"
mkdir -p "$folder" "$work/lists/partial" "$work/cache/archives/partial"
apt() {
    apt-get -q -y -o Dir::State::status="$work/status" -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o Debug::NoLocking=true -o APT::Sandbox::User="$(id -un)" "$@" >>"$work/log" 2>&1 </dev/null || {
        tail -n 5 "$work/log" >&2
        refuse "apt-get could not fetch: $wanted" "is there a network? apt-get update must work, too"
    }
}
echo "packages: fetching $wanted, and what they need"
apt update
apt install --no-install-recommends --download-only make $wanted
for deb in "$work"/cache/archives/*.deb; do
    # apt writes a version's colon as %3a, and would read it as a colon.
    name=$(basename "$deb" | sed 's/%3a/_/g')
    cp "$deb" "$folder/$name"
    dpkg-deb -f "$deb"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$name" "$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d ' ' -f 1)"
done >"$folder/Packages"
sh .make/setup.sh --system >"$folder/for"
echo "packages: $(find "$folder" -name '*.deb' | wc -l) packages, $(du -sh "$folder" | cut -f 1), for $(cat "$folder/for")"
