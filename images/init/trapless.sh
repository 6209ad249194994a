# Read by both init scripts: mounts, the kernel command line, and lines for `trapless`:
#
#   @trapless begin SIDE NAME          the measured part begins
#   @trapless phase NAME               its next phase begins; `workload' is the first
#   @trapless end SIDE NAME status=N   it has ended with exit status N
#   @trapless result KEY=VALUE         one result
#   @trapless dump SIDE.LABEL          a file follows ...
#   @trapless dump-end SIDE.LABEL      ... up to this line
#
# Files are printed after the measured part, because every character on the console is work for the
# machine.

export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root TERM="${TERM:-linux}"

prepare_system() {
    # The shell finds busybox's programs (before files of the same name) through /proc/self/exe.
    /bin/busybox mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t devtmpfs dev /dev
    # Without a console (its driver may come as a module) the kernel starts this program with
    # nothing open.
    if [ ! -e /proc/$$/fd/1 ]; then exec </dev/null >/dev/kmsg 2>&1; fi
    mount -t tmpfs tmpfs /run
    mkdir /dev/shm && mount -t tmpfs tmpfs /dev/shm
    read_command_line
}

# set.NAME=VALUE becomes variable NAME; trapless.NAME=VALUE becomes variable trapless_NAME.
read_command_line() {
    parameters=
    read -r command_line </proc/cmdline
    for word in $command_line; do
        case $word in
        set.*=*)
            parameters="$parameters $word"
            export "${word#set.}"
            ;;
        trapless.*=*)
            word=${word#trapless.}
            export "trapless_$word"
            ;;
        esac
    done
}

# has_device COMPATIBLE: whether the device tree has such a device on the platform bus
has_device() {
    for node in /proc/device-tree/soc/*/compatible; do
        # Strings end in NUL, which the shell drops.
        compatible=
        read -r compatible 2>/dev/null <"$node"
        case $compatible in *"$1"*) return 0 ;; esac
    done
    return 1
}

# sends_ipis: whether the kernel itself sends IPIs by Xtrapless
sends_ipis() { grep -q trapless-ipi /sys/devices/system/cpu/hotplug/states; }

# The guest's side of Xtrapless, unless the kernel has it built in. All its devices, the console
# among them, wait for the interrupt controller's driver.
load_interrupt_drivers() {
    if has_device trapless,irqchip && [ ! -e /sys/bus/platform/drivers/riscv-trapless ]; then
        insmod /lib/trapless/irq-riscv-trapless.ko || give_up "Linux $(uname -r) cannot load the driver of the interrupt controller: it is built for Debian's kernel; use irqchip=plic for another one"
    fi
    if has_device trapless,ipi && ! sends_ipis; then
        insmod /lib/trapless/irq-riscv-trapless-ipi.ko rfence="${rfence:-0}" || give_up "cannot load the driver of IPIs"
    fi
    [ -t 0 ] || wait_for_console
}

# Drivers of PCI devices, if there are any. They come with the devices (image `guest-pci`).
load_pci_drivers() {
    [ -e /proc/device-tree/soc/pci@30000000 ] || return
    # The PCI host may wait for the driver of the interrupt controller.
    tries=0
    until [ -e /sys/bus/pci/devices/0000:00:00.0 ] || [ "$tries" -gt 100 ]; do
        tries=$((tries + 1))
        usleep 10000
    done
    for module in virtio_pci nvme; do modprobe -q "$module"; done
}

# A console that appears by deferred probing becomes standard input and output; without one the
# kernel's log stays.
wait_for_console() {
    case $command_line in *console=hvc*) modprobe virtio_mmio ;; esac
    tries=0
    # Not `:`, which is a special built-in: if its redirection fails, the shell ends.
    until { true >/dev/console; } 2>/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ]; then return 1; fi
        usleep 10000
    done
    exec </dev/console >/dev/console 2>&1
}

# Last words where they are seen even without a console, then the end, also of a workload.
give_up() {
    echo "<0>$1" >/dev/kmsg
    echo "$1"
    ended=${trapless_run:-${trapless_workload:-}}
    if [ -n "$ended" ]; then say "end $side $ended status=2"; fi
    poweroff -f
}

say() { echo "@trapless $*"; }

# phase NAME, in a workload, whose output is kept: on the console, which is done printing when this
# returns
phase() {
    say "phase $1" >/dev/console
    usleep 50000
}

# result KEY VALUE [KEY VALUE]...
result() { printf '%s=%s\n' "$@" >>/run/results; }

# dump LABEL FILE
dump() {
    say "dump $side.$1"
    cat "$2"
    say "dump-end $side.$1"
}

# Runs /workloads/NAME with its output kept; prints markers, results and the interrupt counts around
# it.
run_kept() {
    name=$1
    cat /proc/interrupts >/run/interrupts-begin
    say "begin $side $name"
    (. "/workloads/$name") >/run/output 2>&1
    status=$?
    say "end $side $name status=$status"
    cat /proc/interrupts >/run/interrupts-end
    print_kept
}

print_kept() {
    if [ -e /run/results ]; then
        while read -r line; do say "result $line"; done </run/results
    fi
    for label in interrupts-begin interrupts-end output; do
        if [ -s "/run/$label" ]; then dump "$label" "/run/$label"; fi
    done
}

# The user's shell; leaving it switches the machine off.
interactive() {
    /bin/busybox --install -s
    setsid cttyhack sh
    poweroff -f
}
