# words.sh FILE: what a shell script does with a text, for `program=shell1` and `shell8`: it sorts,
# dumps, looks for and counts words of it, by busybox's programs.
sorted=/run/sorted-$$
sort -k 2 -k 1n "$1" >"$sorted"
od -x "$sorted" | sort -r >"/run/dump-$$"
grep 'word1' "$sorted" | tee "/run/found-$$" | wc >"/run/counts-$$"
rm "$sorted" "/run/dump-$$" "/run/found-$$" "/run/counts-$$"
