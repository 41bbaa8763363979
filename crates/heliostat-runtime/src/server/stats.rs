//! What the array did, copied for whoever asks.

use heliostat_engine::Input;
use heliostat_scheduler::SchedulerSpec;

use super::Server;
use crate::stats::{ClientSnapshot, LegSnapshot, Snapshot};

impl Server {
    pub(super) fn snapshot(&self) -> Snapshot {
        let (core, now) = (&self.core, self.core.now());
        let engine = core.engine();
        let replacement = engine.replacing().map(|(_, by)| by);
        let legs = self.legs_by_role().chain(replacement);
        let legs = legs.map(|leg| {
            let (reads_in_flight, writes_in_flight) = engine.leg_in_flight(leg);
            LegSnapshot {
                name: core.leg_names()[leg.index()].clone(),
                state: engine.leg_state(leg),
                reads_in_flight,
                writes_in_flight,
                read_preferred: engine.is_read_preferred(leg),
                stats: engine.leg_stats(now, leg),
            }
        });
        let accounts = engine.accounts(now);
        let here = accounts.flows.iter().map(|flow| {
            let (name, connections) = core.flows.describe(flow.flow);
            ClientSnapshot {
                name,
                connections,
                until: now,
                account: flow.account.clone(),
                late_in_flight: flow.late_in_flight,
            }
        });
        let gone = core.departed.iter().map(|gone| ClientSnapshot {
            name: gone.name.clone(),
            connections: 0,
            until: gone.at,
            account: gone.account.clone(),
            late_in_flight: 0,
        });
        Snapshot {
            name: self.name.clone(),
            size_bytes: core.info.size_bytes,
            policy: self.policy(),
            scheduler: self.scheduler.to_string(),
            uptime: now - self.started,
            backend: self.backend().to_owned(),
            memory_bytes: self.memory_bytes,
            memory_used_bytes: engine.buffers().used_bytes() as u64,
            dirty: engine.is_active(),
            hedges: engine.hedge_figures(),
            read_ahead: engine.prefetch_figures(),
            clients: here.chain(gone).collect(),
            accounts,
            legs: legs.collect(),
        }
    }

    /// Another scheduler decides from now on, where one is told. The one that does.
    pub(super) fn change_scheduler(&mut self, spec: Option<SchedulerSpec>) -> SchedulerSpec {
        if let Some(spec) = spec {
            self.set_scheduler(spec);
            self.core.log.line(format!("scheduler set to '{spec}'"));
        }
        self.scheduler
    }

    pub(super) fn set_scheduler(&mut self, spec: SchedulerSpec) {
        self.scheduler = spec;
        self.core.input(Input::SetScheduler(spec));
    }

    /// Counts from now on, for the leg of this role or text, or for everything. What became of it.
    pub(super) fn reset_stats(&mut self, leg: Option<&str>) -> Result<String, String> {
        let leg = leg.map(|leg| self.leg_called(leg)).transpose()?;
        self.core.input(Input::ResetStats(leg));
        let what = match leg {
            Some(leg) => self.core.leg_title(leg),
            None => {
                self.core.departed.clear();
                self.name.clone()
            }
        };
        if !self.core.engine().accounts(self.core.now()).is_on {
            return Ok(format!(
                "nothing is counted of {what}, which is served with --no-accounting; what some \
                 read policies average begins now"
            ));
        }
        Ok(format!("the statistics of {what} begin now"))
    }
}
