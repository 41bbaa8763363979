# What scripts of cases have at hand, beside busybox and mdadm.

# Writes COUNT KiB of the pattern, beginning with its KiB FROM, to the array's KiB TO.
put() { # FROM COUNT TO
    dd if="$pattern" of="$md" bs=1k skip="$1" count="$2" seek="$3" conv=notrunc,fsync 2> dd.log
}

# Writes the pattern to the whole array.
fill() {
    put 0 "$(( $(blockdev --getsize64 "$md") / 1024 ))" 0
}

# Saves the whole array as the file NAME.
save() { # NAME
    dd if="$md" of="$1" bs=64k 2> dd.log
}

# Saves what mdadm says of each leg's metadata.
examine() {
    for name in a b c d; do
        leg="$(eval "echo \${$name:-}")"
        [ -n "$leg" ] || continue
        mdadm --examine "$leg" > "$name.examine" 2>&1 || true
        mdadm --examine-bitmap "$leg" > "$name.bitmap" 2>&1 || true
        mdadm --examine-badblocks "$leg" > "$name.badblocks" 2>&1 || true
    done
}

# Waits until the array has nothing to do in the background.
settle() {
    mdadm --wait "$md" || true
    while [ "$(cat "$sys/sync_action")" != idle ]; do sleep 0.1; done
}
