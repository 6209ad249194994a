# For guests whose workload is fio's requests to a disk: `. /lib/fio.sh`. Parameters of the workload
# say what fio does ($operation, $size, $engine, $depth).

# How requests are made: read or write
way=${operation#rand}

# check_fio: whether these parameters go together
check_fio() {
    if [ "$engine" = psync ] && [ "$depth" -gt 1 ]; then
        echo "psync waits for each request: use engine=libaio with depth=$depth"
        return 1
    fi
}

# fio_job DISK ARG...: runs a job on a disk
fio_job() {
    disk=$1
    shift
    (cd /run && exec fio --name=requests --filename="$disk" --bs="$size" --direct=1 --thread \
        --iodepth="$depth" --ioengine="$engine" --clocksource=clock_gettime --disk_util=0 --eta=never "$@")
}

# fio_measure DISK ARG...: runs a job that makes the requests which are measured, and tells results
fio_measure() {
    # The job runs these just before its first request and after the last one. The console is done
    # printing before the first. fio itself looks only every 100 ms whether the job has ended.
    cat >/run/begin <<'END'
. /lib/trapless.sh
say "begin guest requests" >/dev/console
usleep 50000
END
    cat >/run/end <<'END'
. /lib/trapless.sh
say "end guest requests status=0" >/dev/console
END
    fio_job "$@" --rw="$operation" --do_verify=0 --lat_percentiles=1 --percentile_list=50:99 \
        --exec_prerun='sh /run/begin' --exec_postrun='sh /run/end' --output-format=json \
        --output=/run/fio.json || return
    # Each job has a part for each way of transfer, and each of these a part for each kind of
    # latency.
    awk -F '[":, ]+' -v way="$way" '
        /^      "/ { inside = $2 == way }
        /^        "/ { part = $2 }
        !inside { next }
        $2 == "total_ios" { print "requests", $3 }
        $2 == "iops" { print "iops", $3 }
        part != "lat_ns" { next }
        $2 == "50.000000" { print "latency_p50_ns", $3 }
        $2 == "99.000000" { print "latency_p99_ns", $3 }
        $2 == "max" { print "latency_max_ns", $3 }
    ' /run/fio.json >/run/fio
    while read -r key value; do result "$key" "$value"; done </run/fio
    cat /run/fio.json
}
