# KVM of the host, starting guests and waiting for their end. The workload runs in them; KVM's
# statistics are printed when they have ended. What the variables of common parameters mean is said
# in experiments/common/parameters.toml.

# Loads KVM, as parameter `kvm` says: this project's (and the IPI driver) or the kernel's own. Run
# loops other than `stock` need this project's. Where there is no experiment, `trapless.kvm=stock`
# on the command line says so.
load_kvm() {
    load_kvm_module
    if [ -n "${trapless_run:-}" ] && [ ! -e /dev/kvm ]; then
        give_up "Linux $(uname -r) has no KVM: it needs CONFIG_KVM, and --host-modules if that is a module"
    fi
    if [ "${poll:-1}" = 0 ]; then echo 0 >/sys/module/kvm/parameters/halt_poll_ns; fi
}

# has_extension NAME: do the harts have this extension?
has_extension() {
    tr '\0' '\n' </proc/device-tree/cpus/cpu@0/riscv,isa-extensions | grep -qx "$1"
}

# wants_patched_kvm: is it to be this project's KVM?
wants_patched_kvm() {
    case $wanted in
    patched) return 0 ;;
    stock) return 1 ;;
    esac
    has_device trapless,virtual-interrupts || has_extension xtraplessuer || has_extension xtraplessvei
}

load_kvm_module() {
    kvm_loaded=stock
    wanted=${trapless_kvm:-${kvm:-auto}}
    case $wanted in
    auto | stock | patched) ;;
    *) give_up "kvm=$wanted: there are auto, stock and patched" ;;
    esac
    loop=${run_loop:-stock}
    options=
    # The kernel that host_kernel=patched builds has no other KVM.
    case $(uname -r) in
    *-trapless)
        if [ "$wanted" = stock ]; then
            give_up "host_kernel=patched has this project's KVM only: leave out kvm=stock"
        fi
        wanted=patched
        # insmod does not load what the module needs: this, where devices can be passed.
        modprobe -q irqbypass
        if [ "${delivery:-}" = relay ]; then options="irq_bypass=0"; fi
        ;;
    esac
    if [ "$loop" != stock ]; then
        if [ "$wanted" = stock ]; then
            give_up "run_loop=$loop is for this project's KVM: leave out kvm=stock"
        fi
        wanted=patched
    fi
    # A kernel that was built without the patches
    if [ -e /lib/trapless/unpatched ] && wants_patched_kvm; then
        give_up "Linux $(uname -r) has no KVM with this project's patches: use kvm=stock, without run_loop"
    fi
    options="run_loop=$loop $options"
    case ${boost:-auto} in
    off) options="$options boost=0" ;;
    rt) options="$options boost_rt=1" ;;
    esac
    if ! wants_patched_kvm; then
        modprobe kvm
        return
    fi
    if has_device trapless,virtual-interrupts; then
        if [ "${hostipi:-trapless}" = trapless ] && has_device trapless,ipi && ! sends_ipis; then
            insmod /lib/trapless/irq-riscv-trapless-ipi.ko || echo "IPIs stay with the firmware"
        fi
        any=0
        if [ "${notify:-state}" = any ]; then any=1; fi
        options="notify_any=$any $options"
    fi
    if insmod /lib/trapless/kvm.ko $options; then
        kvm_loaded=patched
        return
    fi
    echo "this project's KVM module cannot be loaded"
    # A result of the kernel's KVM must not pass for one of ours.
    if [ -n "${trapless_run:-}" ]; then poweroff -f; fi
    modprobe kvm
}

# leave_harts: ends what else comes to harts that the kernel leaves alone: the scheduler's look
# after fair threads once a second (the deadline server, Linux 6.12), and khugepaged, which has all
# harts drain their lists of pages.
leave_harts() {
    echo never >/sys/kernel/mm/transparent_hugepage/enabled
    for server in /sys/kernel/debug/sched/fair_server/cpu*; do
        case $server in
        */cpu0) ;;
        *) echo 0 >"$server/runtime" ;;
        esac
    done
}

# Kernel of guests, unless a workload names another
guest_kernel=/boot/Image

# Initial RAM file system of guests, until add_to_guest makes it a larger one
guest_initrd=/boot/guest.cpio

# Archives that are in it
guest_archives=

# add_to_guest ARCHIVE: gives guests that start later its files, too. Linux unpacks one archive
# after the other; the archives' writer ends them where the next may begin.
add_to_guest() {
    case "$guest_archives " in *" $1 "*) return 0 ;; esac
    if [ "$guest_initrd" != /run/guest.cpio ]; then
        cp "$guest_initrd" /run/guest.cpio && guest_initrd=/run/guest.cpio || return
    fi
    cat "$1" >>/run/guest.cpio && guest_archives="$guest_archives $1"
}

# use_other_kernel: gives guests the kernel that the host has for them besides Debian's: the user's
# own, or the one with the patches
use_other_kernel() {
    for folder in /boot/own /boot/patched; do
        if [ -e $folder/Image ] && [ "$guest_kernel" = /boot/Image ]; then
            guest_kernel=$folder/Image
            add_to_guest $folder/guest.cpio
        fi
    done
}

# bind_vfio DEVICE...: takes PCI devices (0000:00:01.0) and platform devices (10009000.virtio_mmio)
# from their drivers, for guests
bind_vfio() {
    for device; do
        case $device in
        *:*) bus=pci driver=vfio-pci reset= ;;
        # The kernel cannot load the reset by its alias: images have no list of aliases.
        *) bus=platform driver=vfio-platform reset=vfio_platform_virtio_mmio ;;
        esac
        for module in iommufd $driver $reset; do
            modprobe $module || {
                echo "Linux $(uname -r) has no module $module: use a host kernel with VFIO for RISC-V"
                return 1
            }
        done
        # Nothing checks the data of a device's MSI on its way to an interrupt file, as message
        # windows do, and iommufd has to be told that guests may have devices in spite of that. Of a
        # device without MSIs it does not know that, either.
        if [ $bus = platform ] || has_device riscv,imsics; then
            echo 1 >/sys/module/iommufd/parameters/allow_unsafe_interrupts
        fi
        folder=/sys/bus/$bus/devices/$device
        if [ ! -e "$folder" ]; then
            echo "there is no $bus device $device: $(ls /sys/bus/$bus/devices)"
            return 1
        fi
        echo $driver >"$folder/driver_override"
        if [ -e "$folder/driver" ]; then echo "$device" >"$folder/driver/unbind"; fi
        echo "$device" >/sys/bus/$bus/drivers_probe
        if [ ! -e "$folder/vfio-dev" ]; then
            echo "$driver does not take $device: the kernel's log says why"
            return 1
        fi
    done
}

# vmm_start [tap INTERFACE] [OPTION OF trapless-vmm...]: starts the first guest in the background,
# and the others if asked for, with the options in $other_options
vmm_start() {
    cpus=${trapless_cpus:-1}
    memory=${trapless_memory:-256M}
    vmm=${trapless_vmm:-trapless}
    append="quiet panic=-1 cryptomgr.notests console=ttyS0 trapless.workload=$name$parameters"
    interface=
    if [ "${1:-}" = tap ]; then
        interface=$2
        shift 2
        if [ "${vhost:-0}" = 1 ]; then modprobe vhost_net || return; fi
    fi
    use_other_kernel || return
    if [ -n "${trapless_vfio:-}" ]; then
        bind_vfio $(echo "$trapless_vfio" | tr , ' ') && add_to_guest /boot/guest-pci.cpio || return
    fi
    others=$((${guests:-1} - 1))
    if [ "$vmm" != trapless ]; then others=0; fi
    reserve_huge_pages $((1 + others)) || return
    if [ "${trapless_dedicated:-0}" = 1 ]; then leave_harts || return; fi
    case $vmm in
    trapless)
        if [ -n "$interface" ]; then
            if [ "${vhost:-0}" = 1 ]; then set -- --vhost "$@"; fi
            set -- --tap "$interface" "$@"
        fi
        # Devices are the first guest's.
        for device in $(echo "${trapless_vfio:-}" | tr , ' '); do set -- --vfio "$device" "$@"; done
        vmm_run 0 "$@" </dev/null &
        ;;
    qemu)
        # QEMU 10 starts vCPUs with scounteren = 0: rdtime kills programs. With this clock the time
        # comes by a system call, though in steps of a tick only, and Linux 7.2 waits for ever for a
        # tick when it measures unaligned accesses.
        case $name in
        boot | net | naps | idle | passed*) ;;
        *) append="$append clocksource=jiffies unaligned_scalar_speed=fast" ;;
        esac
        stagger
        if [ "${1:-}" = --disk ]; then
            set -- -drive "file=$2,if=none,format=raw,id=d" -device virtio-blk-device,drive=d
        fi
        # Debian's QEMU for riscv64 has no iommufd, so that it needs the container of VFIO.
        for device in $(echo "${trapless_vfio:-}" | tr , ' '); do set -- "$@" -device "vfio-pci,host=$device"; done
        # Names of threads: vCPUs are moved by them.
        qemu-system-riscv64 -name debug-threads=on -machine "$(qemu_machine)" -cpu host -smp "$cpus" -m "$memory" -nodefaults -no-reboot \
            ${huge:+-object "memory-backend-memfd,id=ram,size=$memory,hugetlb=on,hugetlbsize=2M"} \
            -display none -serial stdio -kernel "$guest_kernel" -initrd "$guest_initrd" \
            ${interface:+-netdev "tap,id=n,ifname=$interface,script=no,downscript=no$(qemu_vhost)" -device "$(qemu_net),netdev=n"} \
            "$@" -append "$append" </dev/null &
        ;;
    *)
        echo "unknown VMM '$vmm' on the command line: use trapless.vmm=trapless or trapless.vmm=qemu"
        return 2
        ;;
    esac
    vmm_pid=$!
    vmm_others=
    number=1
    while [ "$number" -le "$others" ]; do
        vmm_run "$number" ${other_options:-} </dev/null >"/run/guest-$number" 2>&1 &
        vmm_others="$vmm_others $!"
        number=$((number + 1))
    done
    # An open file of a virtual machine's statistics keeps them readable after its end. QEMU tries
    # out KVM on another one first, which never runs, and may be gone before it has been looked at.
    kvm_statistics=
    while kill -0 "$vmm_pid" 2>/dev/null; do
        for folder in "/sys/kernel/debug/kvm/$vmm_pid-"*; do
            if [ "$(cat "$folder/exits" 2>/dev/null || echo 0)" -gt 0 ] &&
                command exec 9<"$folder/exits"; then
                kvm_statistics=$folder
                return 0
            fi
        done
        sleep 0.02
    done
}

# reserve_huge_pages GUESTS: with hugepages=1 sets $huge, and huge pages of 2 MiB aside for the RAM
# of so many guests more
reserve_huge_pages() {
    huge=
    if [ "${hugepages:-0}" = 0 ]; then return; fi
    huge=1
    case $memory in
    *K) pages=$(((${memory%K} + 2047) / 2048)) ;;
    *M) pages=$(((${memory%M} + 1) / 2)) ;;
    *G) pages=$((${memory%G} * 512)) ;;
    *)
        echo "hugepages=1 needs guest RAM with suffix K, M or G, not '$memory': use for instance trapless.memory=256M"
        return 2
        ;;
    esac
    # Not the shell's read, which reads byte by byte: /proc/sys gives no more than the first.
    pages=$(($(cat /proc/sys/vm/nr_hugepages) + $1 * pages))
    echo "$pages" >/proc/sys/vm/nr_hugepages
    pages_now=$(cat /proc/sys/vm/nr_hugepages)
    # Linux gives what it has and reports no error.
    if [ "$pages_now" -lt "$pages" ]; then
        echo "the host has room for $pages_now of $pages huge pages of 2 MiB: give it more RAM, or use hugepages=0"
        return 1
    fi
}

# QEMU's machine: with AIA in KVM where the host has it, as our VMM.
qemu_machine() {
    case ${irqchip:-auto} in
    auto) if has_device riscv,imsics; then irqchip=aia; fi ;;
    esac
    if [ "${irqchip:-auto}" = aia ]; then
        machine=virt,aia=aplic-imsic,accel=kvm
    else
        machine=virt,accel=kvm
    fi
    echo "$machine${huge:+,memory-backend=ram}"
}

# Waits for less than a tick of 4 ms, as the seed says: for a VMM that does not do it itself, as
# ours does with --stagger.
stagger() {
    if [ -z "${trapless_seed:-}" ]; then return; fi
    # SplitMix64. The shell's numbers are signed, so bits shifted in are masked away.
    bits=$((trapless_seed + -7046029254386353131))
    bits=$(((bits ^ bits >> 30 & 0x3ffffffff) * -4658895280553007687))
    bits=$(((bits ^ bits >> 27 & 0x1fffffffff) * -7723592293110705685))
    bits=$((bits ^ bits >> 31 & 0x1ffffffff))
    usleep $(((bits >> 32 & 0xffffffff) * 4000 >> 32))
}

# QEMU's network device: on PCI with MSI-X if devices are to interrupt by eventfd, else wired.
qemu_net() {
    if [ "${inject:-auto}" = irqfd ]; then echo virtio-net-pci,romfile=; else echo virtio-net-device; fi
}

# QEMU's option for who moves frames.
qemu_vhost() {
    if [ "${vhost:-0}" = 1 ]; then echo ,vhost=on; fi
}

# serve_disk FILE: sets $disk_options, with which a guest has the disk; $backend says who serves
# it, until end_backend
serve_disk() {
    backend_pid=
    if [ "${backend:-vmm}" = vmm ]; then
        disk_options="--disk $1"
        return
    fi
    disk_options="--vhost-user-blk /run/disk.sock"
    start_backend blk --socket /run/disk.sock --disk "$1"
}

# lay_cable: sets $near_end and $far_end, with which two guests have the ends of a cable, until
# end_backend
lay_cable() {
    near_end="--vhost-user-net /run/near.sock"
    far_end="--vhost-user-net /run/far.sock"
    start_backend net --socket /run/near.sock --socket /run/far.sock
}

# start_backend OPTION OF trapless-backend...
start_backend() {
    if [ "${trapless_vmm:-trapless}" != trapless ]; then
        echo "backend=$backend is for this project's VMM: leave out --vmm"
        return 2
    fi
    cpu=${backend_cpu#hart}
    if [ "$cpu" != "$backend_cpu" ] && [ "$cpu" -ge "$(nproc)" ]; then
        echo "backend_cpu=$backend_cpu: the host has $(nproc) harts; see --host-harts"
        return 2
    fi
    bound=
    if [ "$backend" != handler ] && [ "$cpu" != "$backend_cpu" ]; then bound="taskset $((1 << cpu))"; fi
    if [ "${populate:-0}" = 1 ]; then set -- "$@" --populate; fi
    $bound trapless-backend "$@" --loop "$backend" --cpu "$cpu" &
    backend_pid=$!
    # It says what is missing.
    until [ -e "$3" ]; do
        kill -0 "$backend_pid" 2>/dev/null || return 2
        usleep 10000
    done
}

# end_backend: results of the kernel's accounting of its threads, and its end: a back end holds the
# guest that it interrupts
end_backend() {
    switches=0
    time=0
    if [ -n "$backend_pid" ]; then
        for task in "/proc/$backend_pid/task/"*; do
            # Threads of a connection end with the VMM.
            waits=$(sed -n 's/^voluntary_ctxt_switches:[^0-9]*//p' "$task/status" 2>/dev/null)
            switches=$((switches + ${waits:-0}))
            { read -r ran other <"$task/schedstat"; } 2>/dev/null && time=$((time + ran))
        done
        kill "$backend_pid"
        wait "$backend_pid"
    fi
    result backend_switches "$switches"
    result backend_time_us $((time / 1000))
}

# vmm_run NUMBER [OPTION OF trapless-vmm...]: runs guest NUMBER in the place of this shell
vmm_run() {
    number=$1
    shift
    if [ "${trapless_dedicated:-0}" = 1 ]; then
        # Hart 0 is the host's.
        set -- --pin "$(seq -s , 1 "$cpus")" "$@"
        if [ "$kvm_loaded" != stock ]; then wfi=native; fi
    elif [ "${pin:-0}" = 1 ]; then
        # Guests begin at different harts, so that one vCPU of each does not meet all the others on
        # hart 0.
        harts=$(nproc)
        list=
        hart=0
        while [ "$hart" -lt "$harts" ]; do
            list=$list,$(((hart + number * cpus) % harts))
            hart=$((hart + 1))
        done
        set -- --pin "${list#,}" "$@"
    fi
    if [ "$number" -gt 0 ]; then append="$append trapless.repeat=1"; fi
    if [ "${uer:-auto}" = auto ] && [ "$kvm_loaded" != stock ] && has_extension xtraplessuer; then
        set -- --uer "$@"
    fi
    if [ "${doorbells:-auto}" = auto ] && [ "$kvm_loaded" != stock ] && has_extension xtraplessvei; then
        set -- --doorbells "$@"
    fi
    # Also a guest that has no such device: the handler may be told on its hart.
    if [ "${backend:-vmm}" = handler ]; then set -- --user-contexts "$@"; fi
    exec trapless-vmm --kernel "$guest_kernel" --initrd "$guest_initrd" --cpus "$cpus" --memory "$memory" --no-reboot \
        ${huge:+--hugepages} --irqchip "${irqchip:-auto}" --wfi "${wfi:-trap}" --inject "${inject:-auto}" \
        --aia-mode "${aia_mode:-auto}" ${trapless_seed:+--stagger "$trapless_seed,$number"} "$@" \
        --append "$append"
}

# Waits for the guest's end; the exit status is the VMM's.
vmm_wait() {
    wait "$vmm_pid"
    vmm_status=$?
    number=1
    for other in $vmm_others; do
        if kill "$other" 2>/dev/null; then
            wait "$other"
        else
            echo "another guest ended by itself:"
            cat "/run/guest-$number"
            vmm_status=1
        fi
        number=$((number + 1))
    done
    if [ -n "$kvm_statistics" ]; then
        for file in "$kvm_statistics"/*; do
            # Per-vCPU folders repeat what is summed here.
            if [ -f "$file" ]; then
                read -r value <"$file" && echo "${file##*/} $value"
            fi
        done >/run/kvm 2>/dev/null
        dump kvm /run/kvm
        exec 9<&-
    fi
    return "$vmm_status"
}

# wait_for_guest ADDRESS: until it answers pings; fails when it has ended, or has not answered for a
# minute
wait_for_guest() {
    tries=0
    until ping -q -c 1 -W 1 "$1" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -ge 60 ] || ! kill -0 "$vmm_pid" 2>/dev/null; then
            echo "the guest does not answer"
            kill "$vmm_pid" 2>/dev/null
            vmm_wait
            return 1
        fi
    done
}

# Results from what ping printed to /run/output:
#   100 packets transmitted, 100 received, 0% packet loss, time 42ms
#   rtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms, ipg/ewma 0.4/0.2 ms
ping_results() {
    set -- $(sed -n 's/.*transmitted, \([0-9]*\) received.*/\1/p; s,^rtt [^=]*= \([0-9.]*\)/\([0-9.]*\)/\([0-9.]*\)/.*,\1 \2 \3,p' /run/output)
    result replies "$1"
    result rtt_min_us "$(echo "$2" | sed 's/\.//; s/^0*\(.\)/\1/')"
    result rtt_avg_us "$(echo "$3" | sed 's/\.//; s/^0*\(.\)/\1/')"
    result rtt_max_us "$(echo "$4" | sed 's/\.//; s/^0*\(.\)/\1/')"
}

# move_vcpus MS: moves a random vCPU thread of the first guest to a random hart every MS ms on
# average, until killed; 0: never. One line for each move goes to /run/moves.
move_vcpus() {
    pause=$1
    harts=$(nproc)
    : >/run/moves
    if [ "$pause" = 0 ] || [ "$harts" = 1 ]; then return; fi
    RANDOM=${seed:-1}
    while kill -0 "$vmm_pid" 2>/dev/null; do
        threads=
        count=0
        for task in "/proc/$vmm_pid/task/"*; do
            read -r thread 2>/dev/null <"$task/comm" || continue
            case $thread in vcpu* | "CPU "*)
                threads="$threads ${task##*/}"
                count=$((count + 1))
                ;;
            esac
        done
        # The list of threads changes only at the beginning; looking costs more than moving.
        moved=0
        while [ "$moved" -lt 50 ] && kill -0 "$vmm_pid" 2>/dev/null; do
            usleep $((RANDOM % (2 * pause + 1) * 1000))
            moved=$((moved + 1))
            [ "$count" -gt 0 ] || continue
            hart=$((RANDOM % harts))
            set -- $threads
            shift $((RANDOM % count))
            taskset -p "$(printf %x $((1 << hart)))" "$1" >/dev/null 2>&1 && echo "$1 $hart" >>/run/moves
        done
    done
}

# tell_guest ADDRESS PORT: connects to a port on which the guest will listen sooner or later; fails
# if it does not in a minute
tell_guest() {
    tries=0
    until echo | nc -w 5 "$1" "$2" 2>/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -ge 600 ] || ! kill -0 "$vmm_pid" 2>/dev/null; then
            echo "the guest does not listen on port $2"
            kill "$vmm_pid" 2>/dev/null
            vmm_wait
            return 1
        fi
        usleep 100000
    done
}

# unplug_harts MS: switches a random hart other than the first off for MS ms on average, then on for
# as long, until killed or the first guest has ended; 0: never. One line for each time goes to
# /run/unplugs.
unplug_harts() {
    pause=$1
    harts=$(nproc)
    if [ "$pause" = 0 ] || [ "$harts" = 1 ]; then return; fi
    RANDOM=$((${seed:-1} + 1))
    hart=0
    trap '[ "$hart" = 0 ] || echo 1 >"/sys/devices/system/cpu/cpu$hart/online"; exit' TERM
    while kill -0 "$vmm_pid" 2>/dev/null; do
        usleep $((RANDOM % (2 * pause + 1) * 1000))
        hart=$((1 + RANDOM % (harts - 1)))
        echo 0 >"/sys/devices/system/cpu/cpu$hart/online" && echo "$hart" >>/run/unplugs
        usleep $((RANDOM % (2 * pause + 1) * 1000))
        echo 1 >"/sys/devices/system/cpu/cpu$hart/online"
    done
}

# pause_guest MS: pauses the first guest, whose control socket is /run/control, for MS ms on
# average, then lets it run for as long, until killed or it has ended; 0: never. One line for each
# pause goes to /run/pauses.
pause_guest() {
    pause=$1
    if [ "$pause" = 0 ]; then return; fi
    RANDOM=$((${seed:-1} + 2))
    trap 'trapless-vmm --control /run/control --send resume >/dev/null 2>&1; exit' TERM
    while kill -0 "$vmm_pid" 2>/dev/null; do
        usleep $((RANDOM % (2 * pause + 1) * 1000))
        trapless-vmm --control /run/control --send pause >/dev/null 2>&1 && echo >>/run/pauses
        usleep $((RANDOM % (2 * pause + 1) * 1000))
        trapless-vmm --control /run/control --send resume >/dev/null 2>&1
    done
}

# kill_guest MS: runs one more guest whose VMM is killed and started again every MS ms on average,
# until killed or the first guest has ended; 0: none. One line for each kill goes to /run/kills. The
# guest repeats the workload, so it ends by itself only if that fails; what it said then goes to
# /run/ended.
kill_guest() {
    pause=$1
    if [ "$pause" = 0 ]; then return; fi
    RANDOM=$((${seed:-1} + 3))
    if ! reserve_huge_pages 1 >/run/victim; then
        cat /run/victim >>/run/ended
        return
    fi
    trap 'kill "$victim" 2>/dev/null; exit' TERM
    while kill -0 "$vmm_pid" 2>/dev/null; do
        vmm_run 8 ${other_options:-} </dev/null >/run/victim 2>&1 &
        victim=$!
        usleep $((RANDOM % (2 * pause + 1) * 1000))
        if kill -9 "$victim" 2>/dev/null; then echo "$victim" >>/run/kills; else cat /run/victim >>/run/ended; fi
        wait "$victim" 2>/dev/null
    done
}
