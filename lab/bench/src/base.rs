//! What the harness and the experiments use from outside, for `use crate::base::*`.

pub(crate) use crate::error::Error;
pub(crate) use ::report::count::counted;
pub(crate) use ::report::time::time;
pub(crate) use ::report::{Table, interrupt};
pub(crate) use clap::{Args, ValueEnum};
pub(crate) use host::measure::bootstrap::{self, Estimate, Pairing};
pub(crate) use host::measure::chart::{Axis, Form, Picture};
pub(crate) use host::measure::progress::Progress;
pub(crate) use host::measure::statistics::{Summary, median};
pub(crate) use rustix::event::{PollFd, PollFlags};
pub(crate) use rustix::fd::OwnedFd;
pub(crate) use rustix::io::Errno;
pub(crate) use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::{Value, json};
pub(crate) use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
pub(crate) use std::fmt::Write as _;
pub(crate) use std::fs::{self, File};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::{Child, Command, Stdio};
pub(crate) use std::thread::{self, sleep};
pub(crate) use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A value of an option.
pub(crate) trait Named: ValueEnum {
    /// Returns the value's name in options and reports.
    fn name(&self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl<T: ValueEnum> Named for T {}
