//! `staircase`: measures how much time the parts of a container cost its start, by starting the same container without
//! each of them.
//!
//! Giuseppe Scrivano reduced these costs in crun step by step from 2017 on: seccomp, the network namespace, the message
//! queues, the IPC namespace.

use crate::harness::*;
use crate::steps;

/// `staircase`.
#[derive(Debug, Args)]
pub struct Staircase {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
}

/// A step: its name, and what leaves a part of the container out.
type Step = (&'static str, fn(&mut Value));

const STEPS: [Step; 6] = [
    ("run", |_| {}),
    ("run without seccomp", seccomp),
    ("run without a network namespace", network),
    ("run without mqueue", mqueue),
    ("run without an IPC namespace", ipc),
    ("run without all of these", |config| [seccomp, network, ipc].iter().for_each(|it| it(config))),
];

impl Experiment for Staircase {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let names = STEPS.map(|(name, _)| name);
        let leave_out = |_, step: usize, config: &mut Value| STEPS[step].1(config);
        steps::compare(stand, entrants, &self.timing, &names, leave_out, &[])
    }
}

/// Removes the seccomp filter.
pub(crate) fn seccomp(config: &mut Value) {
    if let Some(linux) = config["linux"].as_object_mut() {
        linux.remove("seccomp");
    }
}

/// Removes the network namespace, so that the container has the host's.
pub(crate) fn network(config: &mut Value) {
    without_namespace(config, "network");
}

fn mqueue(config: &mut Value) {
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.retain(|mount| mount["type"] != "mqueue");
    }
}

/// Removes the IPC namespace, together with the message queues, which belong to it.
fn ipc(config: &mut Value) {
    mqueue(config);
    without_namespace(config, "ipc");
}

fn without_namespace(config: &mut Value, kind: &str) {
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Profile, podman};

    #[test]
    fn each_step_is_without_its_part() {
        let config = podman(Profile::Seccomp);
        let parts =
            [r#""seccomp":{"#, r#""type":"network""#, r#""type":"mqueue""#, r#""type":"ipc""#];
        let kept = STEPS.map(|(_, leave_out)| {
            let mut config = config.clone();
            leave_out(&mut config);
            parts.map(|part| config.to_string().contains(part))
        });
        assert_eq!(kept[0], [true; 4]);
        assert_eq!(kept[1], [false, true, true, true]);
        assert_eq!(kept[2], [true, false, true, true]);
        assert_eq!(kept[3], [true, true, false, true]);
        assert_eq!(kept[4], [true, true, false, false]);
        assert_eq!(kept[5], [false; 4]);
    }
}
