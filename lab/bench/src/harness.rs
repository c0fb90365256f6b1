//! What most experiments use of the harness and beside it, for `use crate::harness::*`.

pub(crate) use crate::arguments::{Common, Forms, Named as _, Timing, some};
pub(crate) use crate::circumstances::Circumstances;
pub(crate) use crate::container::{Container, Fault};
pub(crate) use crate::figures::{Figures, dash};
pub(crate) use crate::race::{Operation, Rounds, Series, in_turns, race, series_by_step};
pub(crate) use crate::session::{self, Experiment, Outcome, own};
pub(crate) use crate::stand::{Entrant, Stand, first};
pub(crate) use crate::{Error, process, results};
pub(crate) use ::report::count::counted;
pub(crate) use ::report::time::time;
pub(crate) use ::report::{Table, interrupt};
pub(crate) use clap::{Args, ValueEnum};
pub(crate) use host::measure::bootstrap::{self, Estimate, Pairing};
pub(crate) use host::measure::chart::{Axis, Form, Picture};
pub(crate) use host::measure::progress::Progress;
pub(crate) use host::measure::statistics::{Summary, median};
pub(crate) use serde::Serialize;
pub(crate) use serde_json::{Value, json};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::time::{Duration, Instant};
