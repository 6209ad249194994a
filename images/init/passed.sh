# For workloads whose guests have devices of the host for themselves. A script of a workload reads
# it first: `. /lib/passed.sh`.

# share_card: gives the host's network card its address, and sets $passed to the end of it that a
# guest may have: a virtual function (0000:00:01.1), which no driver takes yet, or with device=port
# its platform port (10009000.virtio_mmio). $bus and $sysfs are where that is, $own_driver is the
# driver of the host for it. With cards=N, $passed is a list of N virtual functions with commas, and
# the host has an address in the network of each (10.0.0.1/24, 10.1.0.1/24, ...).
share_card() {
    card=$(ls -d /sys/bus/pci/devices/*/sriov_numvfs) || return
    card=${card%/*}
    modprobe virtio_net || return
    case ${device:-function} in
    function)
        bus=pci own_driver=virtio-pci
        echo 0 >"$card/sriov_drivers_autoprobe"
        echo "${cards:-1}" >"$card/sriov_numvfs" || return
        passed=
        for function in $(seq 0 $((${cards:-1} - 1))); do
            passed=$passed${passed:+,}$(basename "$(readlink "$card/virtfn$function")")
        done
        ;;
    port)
        bus=platform own_driver=virtio-mmio
        passed=10009000.virtio_mmio
        ;;
    esac
    sysfs=/sys/bus/$bus/devices/$passed
    interface=$(ls "$card"/virtio*/net)
    for network in $(seq 0 $((${cards:-1} - 1))); do
        ip address add "10.$network.0.1/24" dev "$interface" || return
    done
    ip link set "$interface" up || return
    [ "${cards:-1}" -gt 1 ] || [ -e "$sysfs" ]
}

# interrupts_of PATTERN: how often interrupts came whose lines in /proc/interrupts match
interrupts_of() {
    awk -v pattern="$1" '$0 ~ pattern { for (i = 2; $i ~ /^[0-9]+$/; i++) sum += $i } END { print sum + 0 }' /proc/interrupts
}

# passed_interrupts: how often the host took interrupts of passed devices. They are forgotten when
# the guest ends.
passed_interrupts() {
    interrupts_of vfio-
}

# move_interrupts PATTERN CPU: has this CPU take them
move_interrupts() {
    for irq in $(sed -n "s/^ *\([0-9]*\):.* $1.*/\1/p" /proc/interrupts); do
        echo "$2" >"/proc/irq/$irq/smp_affinity_list"
    done
}

# tell_guest PORT: tells the guest, which waits there or will soon, to go on; fails if it has ended
tell_guest() {
    until echo | nc -w 5 10.0.0.2 "$1" 2>/dev/null; do
        kill -0 "$vmm_pid" 2>/dev/null || return
        usleep 100000
    done
}
