#!/bin/busybox sh
# The guest's first process: makes the drives known by their serials, runs the job that stands on
# the drive "job", puts what the cases left in /results on the drive "result", and ends.
#
# It ends as in a crash: a shutdown in order would stop the arrays, and whether they were stopped is
# for the cases to say.

/bin/busybox --install -s /bin
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
hostname guest
for module in /modules/*; do
    insmod "$module" || echo "init: $module does not load"
done
# Nobody is there to answer mdadm's wait for links to devices.
export MDADM_NO_UDEV=1
# Small arrays are in sync at once; the kernel's own limit is meant for people's disks.
echo 1000000 > /proc/sys/dev/raid/speed_limit_min
echo 1000000 > /proc/sys/dev/raid/speed_limit_max
for disk in /sys/block/vd*; do
    ln -s "/dev/${disk##*/}" "/drives/$(cat "$disk/serial")"
done

# The environment of the case: $md, its array; $sys, the array's attributes; a variable for each of
# its drives; $legs, those that are legs.
surroundings() { # NUMBER
    number="$1"
    md="/dev/md$1"
    sys="/sys/block/md$1/md"
    pattern=/drives/pattern
    legs=
    for link in "/drives/$1"-*; do
        name="${link##*-}"
        eval "export $name=$(readlink "$link")"
        case "$name" in ?) legs="$legs $(readlink "$link")" ;; esac
    done
    export number md sys pattern legs
}

# Runs the script of a case.
run() { # NAME NUMBER SECONDS
    echo "init: $(cut -d ' ' -f 1 /proc/uptime) s: case $1 begins"
    surroundings "$2"
    cd "/results/$1" || return
    timeout -s KILL "$3" sh -e -c '. /functions; set -x; . ./script' > log 2>&1
    echo $? > status
    echo "init: $(cut -d ' ' -f 1 /proc/uptime) s: case $1 ended with $(cat status)"
}

if grep -q heliostat.shell /proc/cmdline; then
    echo "The case's script is /tmp/job; exit, or power off, ends the guest."
    cp /drives/job /tmp/job
    surroundings 0
    ENV=/functions setsid cttyhack sh
else
    . /drives/job
    dmesg > /results/dmesg
    tar -c -C /results . > /drives/result
    sync
    echo "init: the job is done"
    # Setting a terminal's modes waits until all that was said has left.
    stty -F /dev/console -echo
fi
echo b > /proc/sysrq-trigger
sleep 60
