# The work of the workload `applications`, read by its scripts in guest and host. What a server does
# is asked for by a client in the host. $program and $amount are parameters.

# now: ns since the kernel started
now() { sed -n '/^now at /{s///;s/ nsecs//;p;q}' /proc/timer_list; }

# amount N: the part of N that parameter `amount` says, at least 1
amount() { echo $((($1 * amount + 99) / 100)); }

# What `program=basics` does one after the other
basics="integer float execl pipe switch fork copy shell1 shell8 syscall"

is_server() { case $program in memcached | nginx | netperf | redis) ;; *) return 1 ;; esac }

# copies COMMAND...: one for each CPU, at once
copies() {
    started=
    for copy in $(seq "$cpus"); do
        "$@" &
        started="$started $!"
    done
    for copy in $started; do wait "$copy" || return; done
}

# shells N: N shell scripts at once, which sort, look for and count the words of a text
shells() {
    scripts=
    for script in $(seq "$1"); do
        sh /lib/words.sh /run/words &
        scripts="$scripts $!"
    done
    for script in $scripts; do wait "$script" || return; done
}

# basics_work N: the program of ours with that name, for each CPU
basics_work() {
    operations=$(($(amount "$1") * cpus))
    copies basics "$program" "$(amount "$1")"
}

copy_file() { dd if=/run/from of="/run/to-$copy" bs=1k 2>/dev/null; }

# repeat N COMMAND...
repeat() {
    left=$1
    shift
    while [ "$left" -gt 0 ]; do
        "$@" || return
        left=$((left - 1))
    done
}

# prepare: what is not measured
prepare() {
    cpus=$(nproc)
    cd /run || return
    case $program in
    # The beginning of its file: what a client asks of a file server.
    dbench)
        # It counts in whole seconds, and not in the last.
        seconds=$((1 + $(amount 1)))
        head -n 20000 /usr/share/dbench/client.txt >/run/client.txt
        ;;
    compile) awk -v "functions=$(amount 12)" -f /lib/compile.awk >/run/compile.c ;;
    basics | copy | shell1 | shell8)
        head -c 1048576 /dev/zero >/run/from
        seq 1000 | awk '{ print $1 * 7919 % 1000, "word" $1 % 17 }' >/run/words
        ;;
    redis-local)
        ip link set lo up
        serve 127.0.0.1
        wait_for_server 127.0.0.1
        ;;
    esac
}

# work: sets $operations, what rates are of, and leaves what the program printed in /run/work
work() {
    case $program in
    remap)
        operations=$(($(amount 500) * cpus))
        remap "$cpus" "$(amount 500)" 64
        ;;
    hackbench)
        # Processes and sockets, as it is without options; 20 senders and 20 receivers
        operations=$(($(amount 40) * 400))
        hackbench -g 1 -l "$(amount 40)"
        ;;
    cyclictest)
        operations=$(($(amount 500) * cpus))
        cyclictest -q -t "$cpus" -a -p 90 -m -i 1000 -d 0 -l "$(amount 500)"
        ;;
    tlb-shootdown)
        operations=$(amount 10)
        stress-ng --quiet --tlb-shootdown "$cpus" --tlb-shootdown-ops "$operations"
        ;;
    dbench)
        dbench --skip-cleanup -c /run/client.txt -D /run -t "$seconds" "$cpus"
        ;;
    compile)
        operations=$(($(amount 12) * cpus))
        compilers=
        for file in $(seq "$cpus"); do
            /usr/libexec/gcc/riscv64-linux-gnu/14/cc1 -quiet -fpreprocessed -O2 /run/compile.c -o "/run/$file.s" &
            compilers="$compilers $!"
        done
        for compiler in $compilers; do wait "$compiler" || return; done
        ;;
    integer) basics_work 1600000 ;;
    float) basics_work 120000 ;;
    syscall) basics_work 100000 ;;
    pipe) basics_work 80000 ;;
    execl) basics_work 500 ;;
    switch)
        operations=$(($(amount 20000) * cpus))
        stress-ng --quiet --switch "$cpus" --switch-method pipe --switch-ops "$operations"
        ;;
    fork)
        operations=$(($(amount 250) * cpus))
        stress-ng --quiet --fork "$cpus" --fork-ops "$operations"
        ;;
    copy)
        operations=$(($(amount 20) * 1024 * cpus))
        copies repeat "$(amount 20)" copy_file
        ;;
    shell1)
        operations=$(amount 10)
        repeat "$operations" shells 1
        ;;
    shell8)
        operations=$(amount 2)
        repeat "$operations" shells 8
        ;;
    redis-local) ask 127.0.0.1 ;;
    basics)
        operations=0
        for basic in $basics; do
            phase "$basic"
            begun=$(now)
            (program=$basic && work) || return
            result "${basic}_us" $((($(now) - begun) / 1000))
            operations=$((operations + 1))
        done
        ;;
    esac >/run/work 2>&1
}

# serve ADDRESS: a server in the background
serve() {
    # Servers want to know who they are.
    mkdir -p /etc
    echo root:x:0:0::/: >/etc/passwd
    echo root:x:0: >/etc/group
    case $program in
    memcached) memcached -u root -l "$1" -t "$cpus" & ;;
    nginx)
        mkdir -p /var/log/nginx /var/lib/nginx /run/www
        head -c 1024 /dev/zero | tr '\0' x >/run/www/file
        cat >/run/nginx.conf <<END
daemon off;
user root root;
worker_processes $cpus;
events { }
http {
    access_log off;
    server {
        listen $1:80;
        root /run/www;
    }
}
END
        nginx -c /run/nginx.conf -e stderr &
        ;;
    netperf) netserver -4 -D -L "$1" & ;;
    redis*) redis-server --bind "$1" --protected-mode no --save '' --appendonly no & ;;
    esac >/run/server 2>&1
    server=$!
}

# ask ADDRESS: the client, as `work`
ask() {
    case $program in
    memcached)
        operations=$(($(amount 100) * 8))
        memcslap --servers="$1" --concurrency=8 --execute-number="$(amount 100)" --test=get --initial-load=100
        ;;
    nginx)
        operations=$(amount 500)
        ab -q -n "$operations" -c 8 "http://$1/file"
        ;;
    netperf)
        operations=$(amount 1000)
        netperf -4 -P 0 -H "$1" -t TCP_RR -l "-$operations"
        ;;
    redis*)
        # As many SET as GET, from 50 connections
        operations=$(($(amount 5000) * 2))
        redis-benchmark -h "$1" -q -n "$(amount 5000)" -t set,get
        ;;
    esac >/run/work 2>&1
}

# listens ADDRESS: whether the server does
listens() {
    case $program in
    memcached) port=11211 ;;
    nginx) port=80 ;;
    netperf) port=12865 ;;
    redis*) port=6379 ;;
    esac
    nc -w 1 "$1" "$port" </dev/null >/dev/null 2>&1
}

# wait_for_server ADDRESS
wait_for_server() {
    tries=0
    until listens "$1"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ]; then
            echo "the server does not answer"
            cat /run/server 2>/dev/null
            return 1
        fi
        usleep 100000
    done
}

# measure COMMAND...: marks what is measured, and says how long it took
measure() {
    say "begin work application" >/dev/console
    # The console has printed it.
    usleep 50000
    since=$(now)
    "$@"
    status=$?
    until=$(now)
    say "end work application status=$status" >/dev/console
    cat /run/work
    if [ "$status" != 0 ]; then
        cat /run/server 2>/dev/null
        return "$status"
    fi
    time=$(((until - since) / 1000))
    case $program in
    dbench)
        # Throughput 12.3 MB/sec  2 clients  2 procs  max_latency=1.234 ms
        time=$(((seconds - 1) * 1000000))
        operations=$(sed -n 's/^Throughput \([0-9.]*\) .*/\1/p' /run/work | awk "{ print int(\$1 * 1000 * ($seconds - 1)) }")
        ;;
    cyclictest)
        # T: 0 ( 96) P:90 I:1000 C: 500 Min: 7 Act: 9 Avg: 8 Max: 41
        result latency_avg_us "$(sed -n 's/^T:.*Avg: *\([0-9]*\).*/\1/p' /run/work | sort -n | tail -n 1)"
        result latency_max_us "$(sed -n 's/^T:.*Max: *\([0-9]*\).*/\1/p' /run/work | sort -n | tail -n 1)"
        ;;
    esac
    result time_us "$time"
    result operations "$operations"
    result rate "$(awk "BEGIN { print int($operations * 1e6 / $time) }")"
}
