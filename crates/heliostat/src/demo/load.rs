//! A load generator: keeps a number of random reads in flight over NBD and times the answers.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use heliostat_export_nbd::client::{Client, ClientRequest};
use heliostat_types::{Extent, Prng as _, RandomStream};
use stdx::histogram::Histogram;

/// One client with one connection.
#[derive(Debug)]
pub(super) struct Load {
    client: Client,
    random: RandomStream,
    block_bytes: u64,
    blocks: u64,
}

impl Load {
    /// A load of reads of `block_bytes` all over the export that `client` is connected to.
    pub(super) fn new(client: Client, block_bytes: u64, seed: u64) -> Self {
        let blocks = client.details().size_bytes / block_bytes;
        Self {
            client,
            random: RandomStream::new(seed, "demo-load", 0),
            block_bytes,
            blocks,
        }
    }

    /// Keeps `iodepth` reads in flight for `warmup` and then for `measured`; leaves none behind.
    /// Answers the response times, in nanoseconds, of the reads that were answered in `measured`.
    ///
    /// # Errors
    /// Where the server fails a read or goes away.
    pub(super) fn run(
        &mut self,
        iodepth: u32,
        warmup: Duration,
        measured: Duration,
    ) -> anyhow::Result<Histogram> {
        let mut sent: Vec<Instant> = Vec::new();
        for tag in 0..u64::from(iodepth) {
            sent.push(Instant::now());
            self.submit(tag);
        }
        let counts_from = Instant::now() + warmup;
        let ends = counts_from + measured;
        let mut response = Histogram::new();
        while self.client.in_flight() > 0 {
            let tag = self.wait()?;
            let now = Instant::now();
            let index = usize::try_from(tag).expect("tags are below the depth");
            if (counts_from..ends).contains(&now) {
                let waited = now.duration_since(sent[index]).as_nanos();
                response.record(u64::try_from(waited).expect("a wait is shorter than centuries"));
            }
            if now < ends {
                sent[index] = now;
                self.submit(tag);
            }
        }
        Ok(response)
    }

    fn submit(&mut self, tag: u64) {
        let offset = self.random.below(self.blocks) * self.block_bytes;
        let extent = Extent::new(offset, self.block_bytes);
        self.client.submit(tag, ClientRequest::Read { extent });
    }

    /// The tag of the next read that is answered.
    fn wait(&mut self) -> anyhow::Result<u64> {
        let completion = self.client.wait().context("the connection broke")?;
        if let Err(error) = completion.result {
            bail!("the server failed a read with error {error}");
        }
        Ok(completion.tag)
    }
}
