//! The policies, one file each. A file holds its tunables, its entry of the registry, and the
//! policy; `docs/policies/NAME.md` tells people what it does and where it is from.

pub(crate) mod adaptive;
pub(crate) mod bcachefs;
pub(crate) mod device;
pub(crate) mod devid;
pub(crate) mod drbd_least_pending;
pub(crate) mod gmirror_load;
pub(crate) mod gmirror_split;
pub(crate) mod hst;
pub(crate) mod latency;
pub(crate) mod latency_lifetime;
pub(crate) mod latency_rr;
pub(crate) mod md;
pub(crate) mod p2c;
pub(crate) mod pid;
pub(crate) mod prequal;
pub(crate) mod queue;
pub(crate) mod queue_adaptive;
pub(crate) mod round_robin;
pub(crate) mod roundrobin;
pub(crate) mod roundrobin_jain;
pub(crate) mod service_time;
pub(crate) mod spdk;
pub(crate) mod stripe;
pub(crate) mod zfs;
pub(crate) mod zfs_bonus;
pub(crate) mod zol_load;
