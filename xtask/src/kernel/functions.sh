# What scripts of cases have at hand, beside busybox and mdadm.

# Writes the pattern to the whole array, with the tag a5.
fill() {
    size="$(($(blockdev --getsize64 "$md") / 1024))"
    dd if="$pattern" of="$md" bs=4k count="$((size / 4))" conv=notrunc 2> dd.log
    dd if="$pattern" of="$md" bs=1k count="$((size % 4))" skip="$((size / 4 * 4))" \
        seek="$((size / 4 * 4))" conv=notrunc,fsync 2> dd.log
}

# Writes the pattern to COUNT KiB of the array, beginning with the KiB FROM: with the tag b5, or
# with that of another one of its six parts.
rewrite() { # FROM COUNT [PART]
    part="$(($(blockdev --getsize64 "$pattern") / 1024 / 6 * ${3:-1}))"
    dd if="$pattern" of="$md" bs=1k skip="$((part + $1))" seek="$1" count="$2" \
        conv=notrunc,fsync 2> dd.log
}

# Saves the whole array as the file NAME.
save() { # NAME
    dd if="$md" of="$1" bs=64k 2> dd.log
}

# Runs a command with each leg of the case: its name, then its device.
each_leg() { # COMMAND...
    for leg in /drives/"$number"-?; do
        "$@" "${leg##*-}" "$(readlink "$leg")"
    done
}

# Saves what mdadm says of each leg's metadata, in files whose names begin with WHEN.
examine() { # WHEN
    when="$1"
    each_leg examine_leg
}
examine_leg() {
    mdadm --examine "$2" > "$when-$1.examine" 2>&1 || true
    mdadm --examine-bitmap "$2" > "$when-$1.bitmap" 2>&1 || true
    mdadm --examine-badblocks "$2" > "$when-$1.badblocks" 2>&1 || true
}

# Assembles the array of these legs, saves what they are to the kernel as long as it has done
# nothing yet (it begins nothing while an array may only be read), and goes on.
assemble() { # LEG...
    echo 1 > /sys/module/md_mod/parameters/start_ro
    mdadm --assemble --run "$md" "$@"
    members > assembled
    echo 0 > /sys/module/md_mod/parameters/start_ro
    mdadm --readwrite "$md"
}

# Has the array of these legs for as long as something is to be done in the background.
take_over() { # LEG...
    examine before
    assemble "$@"
    settle
    stop
}

# Saves what mdadm and the kernel say at the end, and stops the array.
stop() {
    members > stopped
    mdadm --stop "$md"
    examine after
}

# Says what each leg is to the kernel, its role and its state, and whether it has to be resynced.
members() {
    each_leg member
    echo "resync $(cat "$sys/resync_start")"
}
member() {
    directory="$sys/dev-${2##*/}"
    if [ -d "$directory" ]; then
        echo "$1 $(cat "$directory/slot") $(cat "$directory/state")"
    else
        echo "$1 out"
    fi
}

# Waits until the array has nothing to do in the background.
settle() {
    mdadm --wait "$md" || true
    while [ "$(cat "$sys/sync_action")" != idle ]; do sleep 0.1; done
}

# Says what the whole array holds at this moment, in a word.
digest() {
    blockdev --flushbufs "$md"
    md5sum < "$md"
}

# Brings legs back that are out: by the bitmap where that is allowed, or else as new ones.
restore() { # LEG...
    for leg in "$@"; do
        name="${leg##*/}"
        if [ -d "$sys/dev-$name" ]; then
            case "$(cat "$sys/dev-$name/state")" in *in_sync*) continue ;; esac
            mdadm "$md" --remove "$leg"
        fi
        if ! mdadm "$md" --re-add "$leg"; then
            mdadm --zero-superblock "$leg"
            mdadm "$md" --add "$leg"
        fi
        settle
    done
}

# Serves an array on the socket $socket in the background, as process $server.
serve() { # NAME|LEG... [OPTION...]
    socket="/tmp/$number.sock"
    rm -f "$socket"
    heliostat serve "$@" --control-dir "/tmp/$number" --memory 80MiB \
        --export "nbd+unix:///disk?socket=$socket" > serve.log 2>&1 &
    server=$!
    while [ ! -S "$socket" ]; do
        kill -0 "$server"
        sleep 0.1
    done
}

# Fails, unless this command fails and says these words.
refused() { # WORDS COMMAND...
    words="$1"
    shift
    if "$@" > refused.log 2>&1; then return 1; fi
    grep -F "$words" refused.log
}
