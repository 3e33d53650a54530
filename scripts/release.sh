#!/usr/bin/env bash
# Builds the files of a version for publication: static binaries of treerun for amd64 and arm64, as archives and as packages for
# Debian and RPM, and their checksums.
#
#   scripts/release.sh [FOLDER]    (default: dist)
#
# The version is that of the commit: v1.2.3 where a tag names it. These binaries are built without cgo, so they need no
# library, and see no GPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) # of all files: two runs make the same
export SOURCE_DATE_EPOCH
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
mkdir -p "${1:-dist}"
dist=$(cd "${1:-dist}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build ARCHITECTURE: the folder $work/ARCHITECTURE, as an archive has it.
build() {
    mkdir "$work/$1"
    CGO_ENABLED=0 GOARCH=$1 go build -trimpath -buildvcs=true -ldflags='-s -w' -o "$work/$1/treerun" ./cmd/treerun
    cp README.md CHANGELOG.md LICENSE THIRD-PARTY "$work/$1"
}

build "$(go env GOHOSTARCH)"
treerun=$work/$(go env GOHOSTARCH)/treerun
version=$("$treerun" version | cut -d ' ' -f 2)
[[ $version = v[0-9]* ]] || { echo "release.sh: this commit has no version, but $version" >&2; exit 1; }
for arch in amd64 arm64; do [ -d "$work/$arch" ] || build "$arch"; done
"$treerun" man | gzip -9n > "$work/treerun.1.gz"
for shell in bash zsh fish; do "$treerun" completion $shell > "$work/$shell"; done

for arch in amd64 arm64; do
    tar -C "$work" --owner=0 --group=0 --sort=name --mtime="@$SOURCE_DATE_EPOCH" -czf "$dist/treerun-$version-linux-$arch.tar.gz" \
        --transform "s,^$arch,treerun-$version-linux-$arch," "$arch"
    cat > "$work/nfpm.yaml" <<END
name: treerun
arch: $arch
version: $version
maintainer: treerun maintainers
description: |
  Runs copies of a program as one job.
  treerun starts the ranks of a job on one host or several, which exchange data with its Go library.
license: Apache-2.0
section: net
contents:
  - {src: $work/$arch/treerun, dst: /usr/bin/treerun}
  - {src: $work/treerun.1.gz, dst: /usr/share/man/man1/treerun.1.gz}
  - {src: $work/bash, dst: /usr/share/bash-completion/completions/treerun}
  - {src: $work/zsh, dst: /usr/share/zsh/vendor-completions/_treerun}
  - {src: $work/fish, dst: /usr/share/fish/vendor_completions.d/treerun.fish}
  - {src: LICENSE, dst: /usr/share/doc/treerun/copyright}
  - {src: THIRD-PARTY, dst: /usr/share/doc/treerun/THIRD-PARTY}
END
    for packager in deb rpm; do go run "$nfpm" package -f "$work/nfpm.yaml" -p $packager -t "$dist"; done
done
(cd "$dist" && sha256sum ./*.tar.gz ./*.deb ./*.rpm | sed 's, \./, ,' > SHA256SUMS)
ls -l "$dist"
