//! The weight of a command: counts and sizes that are the same in every round.

use host::measure::statistics::median;
use serde::Serialize;

/// The way a command is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// At full speed, and timed.
    Timed,
    /// Traced call by call, for system calls and peak memory.
    Calls,
    /// Traced instruction by instruction, up to this number of instructions.
    Instructions(u64),
    /// Traced call by call, for a time line.
    Observed,
    /// At full speed, while dayfly itself records a time line.
    Traced,
}

/// The weight of one step by one entrant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Weight {
    /// The number of system calls of the runtime's processes.
    pub system_calls: f64,
    /// The maximum resident set of any of the runtime's processes, in KiB (VmHWM at their exit or exec). wait4(2)'s
    /// figure can't be used, because it includes the memory of the process that spawned the command.
    pub peak_kib: f64,
    /// The number of user-space instructions of the runtime's processes, if they were counted to the end.
    pub instructions: Option<f64>,
}

impl Weight {
    /// Returns the medians of several weights.
    pub fn middle(weights: &[Self]) -> Option<Self> {
        let middle =
            |figure: fn(&Self) -> f64| median(&mut weights.iter().map(figure).collect::<Vec<_>>());
        let instructions = weights.iter().map(|weight| weight.instructions);
        let instructions: Option<Vec<f64>> = instructions.collect();
        (!weights.is_empty()).then(|| Self {
            system_calls: middle(|weight| weight.system_calls),
            peak_kib: middle(|weight| weight.peak_kib),
            instructions: instructions.map(|mut counts| median(&mut counts)),
        })
    }

    /// Adds the next step's weight: counts are added; of the memory peaks, the larger one is kept.
    pub fn and(self, other: Self) -> Self {
        Self {
            system_calls: self.system_calls + other.system_calls,
            peak_kib: self.peak_kib.max(other.peak_kib),
            instructions: self.instructions.zip(other.instructions).map(|(a, b)| a + b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncounted_one_leaves_the_middle_uncounted() {
        let counted = Weight { system_calls: 3.0, peak_kib: 9.0, instructions: Some(7.0) };
        let uncounted = Weight { instructions: None, ..counted };
        assert_eq!(Weight::middle(&[counted, counted]), Some(counted));
        assert_eq!(Weight::middle(&[counted, uncounted]), Some(uncounted));
        assert_eq!(Weight::middle(&[]), None);
        assert_eq!(counted.and(counted).instructions, Some(14.0));
    }
}
