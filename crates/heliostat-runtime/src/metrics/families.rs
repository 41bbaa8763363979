//! What there is to be measured, by name. docs/metrics.md has the same table, and a test says so.

use super::text::{Family, Kind};

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    family(name, Kind::Counter, labels, help)
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    family(name, Kind::Gauge, labels, help)
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    family(name, Kind::Histogram, labels, help)
}

const fn info(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    family(name, Kind::Info, labels, help)
}

const fn family(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family {
        name,
        kind,
        labels,
        help,
    }
}

const NONE: &[&str] = &[];
const KIND: &[&str] = &["kind"];
const CLIENT: &[&str] = &["client"];
const CLIENT_KIND: &[&str] = &["client", "kind"];
const LEG: &[&str] = &["leg"];
const LEG_KIND: &[&str] = &["leg", "kind"];
const VOLUME: &[&str] = &["volume"];
const WORK: &[&str] = &["work"];

/// Declares families, and [`ALL`] with each of them.
macro_rules! families {
    ($($name:ident = $family:expr;)+) => {
        $(pub(super) const $name: Family = $family;)+

        /// All of them.
        #[cfg(test)]
        pub(super) const ALL: &[Family] = &[$($name),+];
    };
}

families! {
    BUILD = info("heliostat_build", &["version"], "The program.");

    ARRAY = info("heliostat_array", &["uuid", "shape", "backend"],
        "The array: its identity (empty where legs are raw), what it is made of, and how files and \
         block devices are reached.");
    POLICY = info("heliostat_policy", &["policy", "tunables"],
        "The active read policy: its name, and its full form with tunables.");
    SCHEDULER = info("heliostat_scheduler", &["scheduler", "tunables", "place"],
        "The active scheduler: its name, its full form, and what it stands in front of.");
    UPTIME = gauge("heliostat_uptime_seconds", NONE, "For how long the array has been served.");
    SIZE = gauge("heliostat_array_size_bytes", NONE, "Usable size.");
    ACTIVE = gauge("heliostat_array_active", NONE,
        "1 while legs may differ because something was just written, else 0.");
    LEGS = gauge("heliostat_legs", NONE, "How many legs there should be.");
    LEGS_IN_SYNC = gauge("heliostat_legs_in_sync", NONE, "How many legs are in sync.");
    SPARES = gauge("heliostat_spares", NONE, "How many spares there are.");
    MEMORY = gauge("heliostat_memory_bytes", NONE, "Memory for requests.");
    MEMORY_USED = gauge("heliostat_memory_used_bytes", NONE, "How much of it is in use.");
    ACCOUNTING = gauge("heliostat_accounting", NONE,
        "1 where requests are counted, 0 with --no-accounting.");

    REQUESTS = counter("heliostat_requests", KIND,
        "Requests of all clients answered, well or not.");
    REQUEST_BYTES = counter("heliostat_request_bytes", KIND, "Bytes of the requests answered.");
    REQUEST_ERRORS = counter("heliostat_request_errors", KIND, "Requests answered with an error.");
    REQUESTS_IN_FLIGHT = gauge("heliostat_requests_in_flight", KIND, "Requests not answered yet.");
    LATE_REQUESTS = counter("heliostat_late_requests", KIND,
        "Requests whose answer took the client time-out or longer.");
    LATE_IN_FLIGHT = gauge("heliostat_late_requests_in_flight", NONE,
        "Requests that have waited for the client time-out and have no answer.");
    CLIENT_TIMEOUT = gauge("heliostat_client_timeout_seconds", NONE, "What is late.");
    REQUEST_DURATION = histogram("heliostat_request_duration_seconds", KIND,
        "From admission to the answer, over all clients.");
    BUSY = counter("heliostat_busy_seconds", NONE, "Time in which any request was in flight.");
    WEIGHTED = counter("heliostat_request_weighted_seconds", KIND,
        "Time in flight, added up over requests; its rate is the mean number in flight.");

    HEDGES = counter("heliostat_hedges_issued", NONE,
        "Late reads that a second leg was asked for as well.");
    HEDGES_WON = counter("heliostat_hedges_won", NONE,
        "Of the hedges issued, those that the second leg served.");
    HEDGES_WASTED = counter("heliostat_hedges_wasted", NONE,
        "Of the hedges issued, those whose second answer was not used.");
    HEDGES_REFUSED = counter("heliostat_hedges_refused", NONE,
        "Hedges that the policy wanted when the budget, or memory, was used up.");
    READ_AHEAD = counter("heliostat_read_ahead_bytes", NONE,
        "Bytes read from legs before they were asked for.");
    READ_AHEAD_SERVED = counter("heliostat_read_ahead_served_bytes", NONE,
        "Of the bytes read ahead, those that clients were given.");

    CLIENTS = gauge("heliostat_clients", NONE, "Clients that are there.");
    CLIENTS_SHOWN = gauge("heliostat_clients_shown", NONE,
        "Clients that have series of their own below: 128 at most.");
    CLIENT_CONNECTIONS = gauge("heliostat_client_connections", CLIENT, "Connections of a client.");
    CLIENT_REQUESTS = counter("heliostat_client_requests", CLIENT_KIND,
        "Requests of a client answered, well or not.");
    CLIENT_BYTES = counter("heliostat_client_request_bytes", CLIENT_KIND,
        "Bytes of the requests of a client answered.");
    CLIENT_ERRORS = counter("heliostat_client_request_errors", CLIENT_KIND,
        "Requests of a client answered with an error.");
    CLIENT_IN_FLIGHT = gauge("heliostat_client_requests_in_flight", CLIENT_KIND,
        "Requests of a client not answered yet.");
    CLIENT_LATE = counter("heliostat_client_late_requests", CLIENT,
        "Requests of a client whose answer took the client time-out or longer.");
    CLIENT_DURATION = histogram("heliostat_client_request_duration_seconds", CLIENT_KIND,
        "From admission to the answer, of a client.");

    LEG_INFO = info("heliostat_leg", &["leg", "name"], "A leg, as it was written.");
    LEG_STATE = gauge("heliostat_leg_state", &["leg", "state"],
        "1 for the state that a leg is in, 0 for the others.");
    LEG_WRITE_MOSTLY = gauge("heliostat_leg_write_mostly", LEG,
        "1 where a leg is read only if nothing else is left.");
    LEG_FAILFAST = gauge("heliostat_leg_failfast", LEG, "1 where a leg is out at its first error.");
    LEG_SLOW = gauge("heliostat_leg_slow_ratio", LEG,
        "How many times slower than it is known to be the read policy takes a leg for just now; \
         only under policies that predict.");
    LEG_OPS = counter("heliostat_leg_operations", LEG_KIND,
        "Operations completed by a leg, well or not, before merging.");
    LEG_BYTES = counter("heliostat_leg_operation_bytes", LEG_KIND,
        "Bytes of the operations completed by a leg.");
    LEG_ERRORS = counter("heliostat_leg_operation_errors", LEG_KIND,
        "Operations that a leg failed.");
    LEG_IN_FLIGHT = gauge("heliostat_leg_operations_in_flight", LEG_KIND,
        "Operations at a leg, waiting in front of it or in the device.");
    LEG_MERGES = counter("heliostat_leg_merges", LEG,
        "Reads and writes that went to the device as one with another one before them.");
    LEG_HEDGES = counter("heliostat_leg_hedge_reads", LEG,
        "Reads that a leg was asked for because another leg was late.");
    LEG_IGNORED = counter("heliostat_leg_ignored_reads", LEG,
        "Reads that a leg could have served and another one did.");
    LEG_BUSY = counter("heliostat_leg_busy_seconds", LEG,
        "Time in which a leg had anything to do.");
    LEG_WEIGHTED = counter("heliostat_leg_weighted_seconds", LEG_KIND,
        "Time at a leg, added up over operations; its rate is the mean number in flight.");
    LEG_WAIT = histogram("heliostat_leg_queue_wait_seconds", LEG_KIND,
        "From the choice of a leg to dispatch.");
    LEG_SERVICE = histogram("heliostat_leg_service_time_seconds", LEG_KIND,
        "From dispatch to completion.");
    LEG_BAD = gauge("heliostat_leg_bad_bytes", LEG, "What a leg is known not to hold.");
    LEG_CORRECTED = gauge("heliostat_leg_corrected_sectors", LEG,
        "Sectors that a leg could not read, and that were written over and read back well.");
    LEG_READ_ERRORS = gauge("heliostat_leg_recent_read_errors", LEG,
        "Read errors of a leg, each hour counting half of the one after it.");

    BITMAP_CHUNK = gauge("heliostat_bitmap_chunk_bytes", NONE,
        "What a bit of the bitmap stands for.");
    BITMAP_CHUNKS = gauge("heliostat_bitmap_chunks", NONE, "Bits of the bitmap.");
    BITMAP_SET = gauge("heliostat_bitmap_chunks_set", NONE, "Bits that are set.");
    BITMAP_NEEDED = gauge("heliostat_bitmap_chunks_needed", NONE,
        "Chunks in which legs may differ since an earlier life.");
    BITMAP_SETS = counter("heliostat_bitmap_sets", NONE, "Bits set since the start.");
    BITMAP_PAGES = counter("heliostat_bitmap_pages_written", NONE,
        "Pages of the bitmap written since the start, to each leg.");
    BEHIND = gauge("heliostat_write_behind_writes", NONE,
        "Writes answered that some write-mostly leg lacks.");
    BEHIND_BYTES = gauge("heliostat_write_behind_bytes", NONE,
        "Bytes of the writes that are behind.");
    BEHIND_TOTAL = counter("heliostat_write_behind_answered", NONE,
        "Writes answered before write-mostly legs had them, since the start.");

    WORK_ACTIVE = gauge("heliostat_background_active", WORK,
        "1 while resync, rebuild, check or repair is under way.");
    WORK_PAUSED = gauge("heliostat_background_paused", WORK, "1 while it is told to pause.");
    WORK_DONE = gauge("heliostat_background_done_bytes", WORK, "How much is done.");
    WORK_SIZE = gauge("heliostat_background_size_bytes", WORK, "How much there is to do in all.");
    WORK_RATE = gauge("heliostat_background_bytes_per_second", WORK,
        "What was done within the last seconds.");
    WORK_MISMATCH = gauge("heliostat_background_mismatch_bytes", WORK, "What differed by now.");
    SCRUB_MISMATCH = gauge("heliostat_last_scrub_mismatch_bytes", WORK,
        "What differed in the check or repair that ended last.");

    VOLUME_SIZE = gauge("heliostat_volume_size_bytes", VOLUME, "What clients see of a volume.");
    VOLUME_ALLOCATED = gauge("heliostat_volume_allocated_bytes", VOLUME,
        "What a volume has of the array.");
    VOLUME_PREPARED = gauge("heliostat_volume_prepared_bytes", VOLUME,
        "How much of that holds nothing of former volumes.");
    VOLUME_CONNECTIONS = gauge("heliostat_volume_connections", VOLUME,
        "Connections that use a volume.");
    VOLUMES_FREE = gauge("heliostat_volumes_free_bytes", NONE, "What no volume has.");
}
