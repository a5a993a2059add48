#!/usr/bin/env bash
# The main job on real input: fetch, store, verify, snapshot, change, read the past, kill, reopen, measure.
# Needs DOLMEN (the program), Python 3.11 and cargo's toolchain. Writes below target/demo only, unless pip has to be
# installed for the system.
set -euo pipefail
cd "$(dirname "$0")/.."

DOLMEN=${DOLMEN:-$PWD/target/release/dolmen}
WORK=${DEMO_DIR:-${CARGO_TARGET_DIR:-$PWD/target}/demo}
POOL=$WORK/pool
ROWS=$WORK/rows.tsv
COFFEA=coffea-2026.9.0
CFGRIB=cfgrib-0.9.15.1

now() { date +%s.%N; }
begun=$(now)
mkdir -p "$WORK/fetched"
rm -rf "$POOL" "$WORK/copy" "$WORK"/*.journal "$ROWS"
say() { printf '\n== %s\n' "$*"; }
since() { python3 -c "print(f'{$(now) - $1:.2f}')"; }

# Python with pip: its own, one in a virtual environment, or that of the distribution.
python_with_pip() {
  if python3 -m pip --version > /dev/null 2>&1; then
    echo python3
  elif python3 -m venv "$WORK/venv" > /dev/null 2>&1; then
    echo "$WORK/venv/bin/python"
  elif [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    { apt-get update -qq && apt-get install -y -qq python3-pip; } >&2 && echo python3
  else
    echo "this Python has no pip and cannot make a virtual environment: install python3-pip or python3-venv" >&2
    return 1
  fi
}
PYTHON=$(python_with_pip)

fetch() {
  local package=$1 archive=$WORK/fetched/$1.tar.gz
  if [ ! -f "$archive" ]; then
    "$PYTHON" -m pip download -q --disable-pip-version-check --no-deps --no-binary "${package%%-*}" \
      --dest "$WORK/fetched" "${package%%-*}==${package#*-}"
  fi
  rm -rf "${WORK:?}/$package"
  tar -xzf "$archive" -C "$WORK"
}

say "fetch $COFFEA (CMS, ATLAS, FCC ROOT files) and $CFGRIB (ERA5 and other GRIB), as plain sdists"
fetch $COFFEA & fetching=$!
fetch $CFGRIB
wait $fetching
TOOLCHAIN=$(rustc --print sysroot)
NAMES=(coffea cfgrib toolchain)
declare -A TREE=([coffea]=$WORK/$COFFEA [cfgrib]=$WORK/$CFGRIB [toolchain]=$TOOLCHAIN)
for name in "${NAMES[@]}"; do
  printf '%-10s %7d files %8s  %s\n' "$name" "$(find "${TREE[$name]}" -type f | wc -l)" \
    "$(du -sh --apparent-size "${TREE[$name]}" | cut -f1)" "${TREE[$name]}"
done
echo "fetched and unpacked in $(since "$begun") s"

say "a pool of 4 targets, a container of files"
"$DOLMEN" pool create "$POOL" --targets 4 --label demo || "$DOLMEN" pool create "$POOL" --targets 4 --label demo --volatile
"$DOLMEN" cont create "$POOL" files --durability process
"$DOLMEN" cont create "$POOL" durable --durability power

# One row: tree, how, files, bytes, seconds.
row() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >> "$ROWS"; }

say "put three trees; then cp -a and sync of the same trees: at the end of each, all is on the disk"
# Both sides read from the page cache.
for name in "${NAMES[@]}"; do
  find "${TREE[$name]}" -type f -print0 | xargs -0 cat > /dev/null
done
mkdir -p "$WORK/copy"
for name in "${NAMES[@]}"; do
  start=$(now)
  "$DOLMEN" fs put "$POOL" files "${TREE[$name]}" "/$name"
  seconds=$(since "$start")
  read -r files bytes < <("$DOLMEN" fs du "$POOL" files "/$name" --json |
    python3 -c 'import json,sys; r=json.load(sys.stdin)["response"]; print(r["files"], r["size_bytes"])')
  row "$name" dolmen "$files" "$bytes" "$seconds"
  start=$(now)
  cp -a "${TREE[$name]}" "$WORK/copy/$name"
  sync -f "$WORK/copy/$name"
  row "$name" "cp -a, sync" "$files" "$bytes" "$(since "$start")"
done

say "the same with every file durable before the next is acknowledged (durability = power), against fsync of every file"
for name in coffea cfgrib; do
  read -r files bytes < <(awk -F'\t' -v n="$name" '$1==n && $2=="dolmen" {print $3, $4}' "$ROWS")
  start=$(now)
  "$DOLMEN" fs put "$POOL" durable "${TREE[$name]}" "/$name"
  row "$name, each" dolmen "$files" "$bytes" "$(since "$start")"
  start=$(now)
  python3 demo/copy_durable.py "${TREE[$name]}" "$WORK/copy/$name.durable"
  row "$name, each" "copy, fsync" "$files" "$bytes" "$(since "$start")"
done

say "verify every byte"
for name in "${NAMES[@]}"; do
  "$DOLMEN" fs verify "$POOL" files "${TREE[$name]}" "/$name"
done
for name in coffea cfgrib; do
  "$DOLMEN" fs verify "$POOL" durable "${TREE[$name]}" "/$name"
done

say "snapshot, then change, rename and delete a part"
"$DOLMEN" cont snapshot create "$POOL" files before
printf 'changed after the snapshot\n' > "$WORK/changed"
"$DOLMEN" fs put "$POOL" files "$WORK/changed" /coffea/pyproject.toml
"$DOLMEN" fs put "$POOL" files "$WORK/changed" /cfgrib/new/note
"$DOLMEN" fs mv "$POOL" files /coffea/docs /coffea/documents
"$DOLMEN" fs rm -r "$POOL" files /cfgrib/tests /coffea/binder
say "what changed since the snapshot"
"$DOLMEN" cont snapshot diff "$POOL" files before > "$WORK/diff"
head -n 12 "$WORK/diff"
[ "$(wc -l < "$WORK/diff")" -le 13 ] || echo "..."
tail -n 1 "$WORK/diff"
say "now, and at the snapshot"
"$DOLMEN" fs cat "$POOL" files /coffea/pyproject.toml
"$DOLMEN" fs cat "$POOL" files /coffea/pyproject.toml --snapshot before | head -n 3
for name in coffea cfgrib; do
  "$DOLMEN" fs verify "$POOL" files "${TREE[$name]}" "/$name" --snapshot before
done

say "a second put of the toolchain, killed (SIGKILL) in the middle"
journal=$WORK/second.journal
# When this many of its files are acknowledged.
kill_after=$(($(find "$TOOLCHAIN" -type f | wc -l) / 6))
touch "$journal"
"$DOLMEN" fs put "$POOL" files "$TOOLCHAIN" /second --log "$journal" &
victim=$!
acknowledged() { tr -cd '\0' < "$journal" | wc -c; }
while kill -0 $victim 2> /dev/null && [ "$(acknowledged)" -lt "$kill_after" ]; do sleep 0.005; done
kill -KILL $victim 2> /dev/null || { echo "the put ended before it could be killed"; exit 1; }
wait $victim 2> /dev/null || true
echo "killed after $(acknowledged) acknowledged files"
say "reopen: everything acknowledged is there, and every stored byte and invariant is checked"
"$DOLMEN" check "$POOL"
"$DOLMEN" fs verify "$POOL" files --log "$journal"
"$DOLMEN" check "$POOL" --scrub
say "the same put again goes on where it was killed"
"$DOLMEN" fs put "$POOL" files "$TOOLCHAIN" /second

say "result"
"$DOLMEN" pool query "$POOL" --json > "$WORK/pool.json"
python3 demo/report.py "$ROWS" "$WORK/pool.json" "$WORK/demo.png"
du -sh "$POOL" "$WORK/copy" | sed 's/^/on disk: /'
rm -rf "$WORK/copy"
echo "everything in $(since "$begun") s"
