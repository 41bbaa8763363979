#!/bin/sh
# A mirror of memory and of a hard disk that is only a model, served over NBD, read once, and what
# each leg was asked. Needs heliostat in the PATH, and nbdcopy (Debian: libnbd-bin).
set -eu

heliostat serve mem:64MiB model:hdd-7200-2tb,size=64MiB --control-dir ./try \
    --export 'nbd+unix:///try?socket=./try.sock' &
until heliostat policy try latency --control-dir ./try 2>/dev/null; do sleep 0.1; done
nbdcopy 'nbd+unix:///try?socket=./try.sock' null:
heliostat stats try --control-dir ./try
kill $! && wait
