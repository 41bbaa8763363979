//! Volumes of the array that is served.

use super::Server;
use crate::RuntimeError;
use crate::commands::Refused;
use crate::options::ArrayOptions;
use crate::setup::Prepared;
use crate::volumes::{ChangeReply, VolumeChange, Volumes, VolumesStatus};

/// How much is zeroed at a time where a leg has to be sent zeros: a blink of a hard disk, so that
/// clients hardly wait behind it.
const ZEROED_SLOWLY_BYTES: u64 = 4 << 20;

/// The same where all legs zero by themselves.
const ZEROED_FAST_BYTES: u64 = 256 << 20;

/// The volumes of an array, before anybody has looked for their table.
pub(super) fn of(options: &ArrayOptions, prepared: &Prepared) -> Volumes {
    let uuid = prepared.described.as_ref().map(|described| described.uuid);
    let frozen = if uuid.is_none() {
        let text = "the legs of this array are raw, and only arrays with md metadata have volumes: \
                    'heliostat create' makes one";
        Some(text.to_owned())
    } else if options.whole {
        let text = "the array is served with --whole: whatever volumes it has are left alone";
        Some(text.to_owned())
    } else if options.read_only {
        Some("the array is served read-only".to_owned())
    } else {
        None
    };
    let is_fast = prepared.legs.iter().all(|leg| leg.info().fast_zero);
    let piece_bytes = if is_fast {
        ZEROED_FAST_BYTES
    } else {
        ZEROED_SLOWLY_BYTES
    };
    let array = uuid.filter(|_| !options.whole);
    Volumes::new(array, frozen, prepared.size_bytes, piece_bytes)
}

impl Server {
    /// Looks for the table of volumes, and puts right what is wrong with its copies, before anybody
    /// is served.
    pub(super) fn load_volumes(&mut self) -> Result<(), RuntimeError> {
        self.core.volumes.begin_load();
        self.core.run_volumes();
        while self.core.volumes.is_loading() && !self.stop.is_requested() {
            self.turn_unserved(|_| false)?;
            let completion = self.core.next_completion();
            assert!(completion.is_none(), "nobody else has asked for anything");
            self.core.run_volumes();
        }
        self.core.volumes.take_exports_due();
        match self.core.volumes.refusal() {
            None => {
                self.tell_of_names();
                Ok(())
            }
            Some(why) => Err(RuntimeError(format!(
                "the volumes of {} cannot be served: {why}. 'heliostat serve ... --whole' serves \
                 the array as one, with all that it holds",
                self.name
            ))),
        }
    }

    /// Whether clients that ask for this mean the array as a whole, where that is served.
    fn is_name_of_whole(&self, name: &str) -> bool {
        let mut exports = self.exports.iter();
        self.name == name || exports.any(|export| export.names().iter().any(|its| its == name))
    }

    /// Says which volumes are called as the whole: the array was called otherwise when they were
    /// made. Nobody mistakes one for the other as long as there are volumes.
    fn tell_of_names(&self) {
        let volumes = self.core.volumes.infos().into_iter().flatten();
        for volume in volumes.filter(|volume| self.is_name_of_whole(&volume.name)) {
            self.core.log.line(format!(
                "volume {0} is called as the array as a whole is: with --whole, whoever asks for \
                 {0} gets all volumes' bytes",
                volume.name
            ));
        }
    }

    /// Has the volumes changed, unless one would be called as the whole is: a client that had that
    /// gets a volume when it connects again, or with --whole the other way round.
    pub(super) fn change_volumes(&mut self, change: VolumeChange, reply: ChangeReply) {
        if let VolumeChange::Create { volume, .. } = &change
            && self.is_name_of_whole(volume)
        {
            let why = format!(
                "'{volume}' is what clients ask for the array as a whole by; a volume is called \
                 otherwise, so that nobody takes one for the other"
            );
            drop(reply.try_send(Err(Refused::from(why))));
            return;
        }
        self.core.volumes.ask(change, reply);
    }

    /// Goes on with what is done about volumes. Whether anything came of it.
    pub(super) fn run_volumes(&mut self) -> bool {
        let has_moved = self.core.run_volumes();
        if self.core.volumes.take_exports_due() && !self.are_exports_closed {
            self.each_export(|export, context| export.on_volumes_changed(context));
        }
        has_moved
    }

    /// How they are.
    pub(super) fn volumes_status(&self) -> VolumesStatus {
        let size_bytes = self.core.info.size_bytes;
        let volumes = &self.core.volumes;
        volumes.status(self.name.clone(), self.uuid.clone(), size_bytes)
    }
}
