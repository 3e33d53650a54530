#!/usr/bin/env bash
# Checks that treerun cuts no character of UTF-8 and mixes no lines of ranks.
#
#   scripts/faults/text.sh
#
# A rank writes a table in pieces that end within characters, with pauses; each line that treerun prints must be UTF-8.
# Three ranks write lines of 900 KiB without tags at once; each must arrive whole. Of lines of 3 MiB each part must be
# of one rank. One rank alone writes 3 MB without a newline; its bytes must be the same. Takes some seconds.
#
# Needs go, iconv and coreutils.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/treerun" ./cmd/treerun
failed=0
fault() {
    echo "fault: $*" >&2
    failed=1
}

# Pieces of 7 bytes: characters of three bytes are cut in all places.
cat > "$work/table" <<'P'
if [ "$RANK" = 0 ]; then
    for i in 1 2 3 4 5 6 7 8; do printf '╭──────╮\n│ é漢🌲 │\n'; done > "$0.txt"
    size=$(wc -c < "$0.txt")
    for at in $(seq 0 7 "$size"); do
        tail -c +$((at + 1)) "$0.txt" | head -c 7
        sleep 0.06
    done
fi
P
for tag in true false; do
    "$work/treerun" -np 2 --tag-output=$tag sh "$work/table" > "$work/out"
    while IFS= read -r line; do
        printf '%s' "$line" | iconv -f UTF-8 -t UTF-8 > "$work/line" 2>&1 || fault "a character is cut: $(printf %q "$line")"
    done < "$work/out"
    [ "$(sed 's/^\[0\] //' "$work/out" | sed -z 's/ \\\n//g')" = "$(cat "$work/table.txt")" ] ||
        fault "the table is not the same (--tag-output=$tag)"
done

cat > "$work/long" <<'P'
letter=$(printf 'abc' | cut -c $((RANK + 1)))
for i in 1 2 3 4 5 6; do
    head -c "$1" /dev/zero | tr '\0' "$letter"
    echo
done
P
"$work/treerun" -np 3 --tag-output=false sh "$work/long" 921600 > "$work/out"
lines=$(grep -cE '^(a+|b+|c+)$' "$work/out" || true)
[ "$lines" = 18 ] || fault "$lines of 18 lines of 900 KiB are whole"
"$work/treerun" -np 3 --tag-output=false sh "$work/long" 3145728 > "$work/out"
mixed=$(grep -cvE '^(a+|b+|c+)?( \\)?$' "$work/out" || true)
[ "$mixed" = 0 ] || fault "$mixed lines hold text of several ranks"

"$work/treerun" -np 2 --tag-output=false sh -c '[ $RANK = 1 ] || head -c 3000000 /dev/zero' > "$work/out"
cmp -s "$work/out" <(head -c 3000000 /dev/zero) || fault "the bytes of one rank were changed"

[ $failed = 0 ] && echo "text: no character is cut, no line is mixed"
exit $failed
