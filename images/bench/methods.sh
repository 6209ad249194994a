# Runs what bench/methods lists: work that was not chosen for this project.
. /bench/measure.sh

prepare_sha256sum() { head -c "$1" /dev/zero >/run/bytes; }
prepare_sort() { awk -v lines="$1" 'BEGIN { for (i = n = 1; i <= lines; i++) { n = n * 16807 % 2147483647; print n, i } }' >/run/lines; }

run_sha256sum() { /usr/bin/sha256sum /run/bytes; }
run_sort() { /usr/bin/sort -o /run/sorted /run/lines; }

# The same random numbers each time
stress() { stress-ng --quiet --no-rand-seed "$@"; }

while read -r row kind work <&3; do
    wanted "$row" || continue
    case $kind in
    method | long-double) measure "$row" stress --cpu 1 --cpu-method "${row#cpu_}" --cpu-ops "$work" ;;
    stressor) measure "$row" stress "--$row" 1 "--$row-ops" "$work" ;;
    program)
        "prepare_$row" "$work" || continue
        measure "$row" "run_$row"
        ;;
    esac
done 3</bench/methods
