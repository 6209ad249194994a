# Read by the system tests' scripts on the host: guests with a console to talk to.

# start_guest NAME CPUS [OPTION OF trapless-vmm...]: a guest that runs workload NAME. What it prints
# goes to /run/NAME.out, what is written to /run/NAME.in it reads. Its process is $guest_pid.
# $guest_memory, $guest_initrd and $guest_append are what it has besides or instead.
start_guest() {
    guest=$1
    cpus=$2
    shift 2
    run_vmm "$guest" --cpus "$cpus" --kernel /boot/Image --initrd "${guest_initrd:-/boot/guest.cpio}" "$@" \
        --append "quiet panic=-1 cryptomgr.notests console=ttyS0 trapless.workload=$guest ${chatter:+trapless.chatter=1} ${guest_append:-}"
}

# With Xuer, serial ports answer in user mode and are kept busy.
if has_extension xtraplessuer; then
    uer=--uer
    chatter=1
fi

# run_vmm NAME [OPTION OF trapless-vmm...]: a VMM with that console. trapless.irqchip and
# trapless.inject on the command line choose its interrupt controller.
run_vmm() {
    guest=$1
    shift
    if [ ! -p "/run/$guest.in" ]; then mkfifo "/run/$guest.in"; fi
    # Opened for both, so that it does not end, and nobody waits for the other side.
    trapless-vmm --memory "${guest_memory:-128M}" --no-reboot ${uer:-} --irqchip "${trapless_irqchip:-trapless}" --inject "${trapless_inject:-auto}" "$@" \
        <>"/run/$guest.in" >>"/run/$guest.out" 2>&1 &
    guest_pid=$!
}

# tell_console NAME LINE
tell_console() { echo "$2" >"/run/$1.in"; }

# expect NAME TEXT: until the guest has printed a line with TEXT; fails after a while, or when no
# VMM runs any more
expect() {
    tries=0
    until grep -q "$2" "/run/$1.out" 2>/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -ge 200 ] || ! kill -0 "$guest_pid" 2>/dev/null; then
            result "missing" "$1:$2"
            for console in /run/*.out; do
                show "$(basename "$console" .out)"
            done
            return 1
        fi
        usleep 50000
    done
}

# report NAME: passes on what the guest printed as `NAME KEY=VALUE ...`, each as result NAME_KEY
report() {
    for word in $(tr -d '\r' <"/run/$1.out" | sed -n "s/^$1 \(.*=.*\)/\1/p"); do
        result "$1_${word%%=*}" "${word#*=}"
    done
}

# show NAME: what the guest printed, without anything that looks like our own markers
show() {
    echo "--- console of $1"
    tr -d '\r' <"/run/$1.out" | sed 's/@trapless/(trapless)/'
}
