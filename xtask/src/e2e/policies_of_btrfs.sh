#!/bin/sh
# Compares read policies the way it is done on btrfs: switch by its control file, see that it was
# switched, note what each device did, run fio on a file, note it again, defragment.
#
# $1: the directory of control files (of btrfs: /sys/fs/btrfs/UUID); $2: where the file system is
# mounted; the rest: policies.
set -eu
control=$1 place=$2
shift 2

counts() {
    grep . "$control"/devinfo/*/read_stats | sed 's/.*devinfo\///'
}

before=$(sed 's/.*\[\(.*\)\].*/\1/' "$control/read_policy")
fio --name=prepare --filename="$place/file" --rw=write --bs=1m --size=32m --end_fsync=1 --output=/dev/null
for policy; do
    echo "$policy" >"$control/read_policy"
    grep -F -q "[$policy" "$control/read_policy"
    echo "== $policy"
    counts
    echo 3 >/proc/sys/vm/drop_caches
    fio --name=read --filename="$place/file" --rw=randread --bs=4k --size=32m --direct=1 \
        --ioengine=libaio --iodepth=8 --runtime=1 --time_based --output-format=terse | cut -d';' -f8
    counts
    btrfs filesystem defragment -f "$place/file"
done
echo "$before" >"$control/read_policy"
grep -F -q "[$before" "$control/read_policy"
