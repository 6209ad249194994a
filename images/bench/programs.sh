# Runs real programs, each with a fixed amount of work. What is prepared before `begin` does not
# count. Redis listens at `port`, so that a run outside a guest can choose a free one.
. /bench/measure.sh

# 3 MB of text and machine code
make_file() {
    [ -e /run/file ] || { cat /usr/lib/python3.13/*.py | head -c 1500000 && head -c 1500000 /usr/libexec/gcc/*/*/cc1; } >/run/file
}

prepare_gzip() { make_file; }
prepare_xz() { make_file; }
prepare_compiler() { awk -v functions=40 -f /bench/compile.awk >/run/compile.c; }
prepare_redis() {
    port=${port:-6379}
    ip link set lo up
    redis-server --save '' --appendonly no --bind 127.0.0.1 --port "$port" >/run/redis-log 2>&1 &
    redis=$!
    tries=0
    until redis-benchmark -p "$port" -q -n 10 -t ping_mbulk >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 50 ]; then cat /run/redis-log; return 1; fi
        usleep 100000
    done
}

run_integer() { /bench/integer-loop; }
run_sysbench_cpu() { sysbench cpu --cpu-max-prime=20000 --events=200 --time=0 run; }
run_sysbench_memory() { sysbench memory --memory-total-size=2G --memory-block-size=4K --time=0 run; }
run_stress_matrix() { stress-ng --quiet --cpu 1 --cpu-method matrixprod --cpu-ops 8; }
run_stress_integer() { stress-ng --quiet --cpu 1 --cpu-method int64 --cpu-ops 200; }
run_gzip() { /usr/bin/gzip -9 -c /run/file >/run/file.gz; }
run_xz() { /usr/bin/xz -2 -T1 -c /run/file >/run/file.xz; }
run_python() { python3.13 -I /bench/work.py; }
run_compiler() { "$(echo /usr/libexec/gcc/*/*/cc1)" -quiet -fpreprocessed -O2 /run/compile.c -o /run/compile.s; }
run_sqlite() { sqlite3 /run/database </bench/work.sql; }
run_redis() { redis-benchmark -p "$port" -q -c 10 -n 1500 -t set,get; }

for name in integer sysbench_cpu sysbench_memory stress_matrix stress_integer gzip xz python compiler sqlite redis; do
    wanted "$name" || continue
    case $name in gzip | xz | compiler | redis) "prepare_$name" || continue ;; esac
    measure "$name" "run_$name"
done
if [ -n "${redis:-}" ]; then kill "$redis"; fi
