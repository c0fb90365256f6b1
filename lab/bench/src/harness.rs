//! What most experiments use of the harness and beside it, for `use crate::harness::*`.

pub(crate) use crate::arguments::{Common, Forms, Timing, some};
pub(crate) use crate::base::*;
pub(crate) use crate::cgroup::can_limit;
pub(crate) use crate::circumstances::Circumstances;
pub(crate) use crate::container::Container;
pub(crate) use crate::figures::{Figures, dash};
pub(crate) use crate::process::Failure;
pub(crate) use crate::race::{Operation, Rounds, Series, in_turns, pause, race, series_by_step};
pub(crate) use crate::session::{self, Experiment, Outcome, own};
pub(crate) use crate::stand::{Entrant, Stand, first};
pub(crate) use crate::view::View;
pub(crate) use crate::{process, results};
