//! What programs that measure have in common.
//!
//! | part | what |
//! |---|---|
//! | [`statistics`], [`bootstrap`] | summaries of samples, confidence intervals |
//! | [`idle`] | how much of a host's CPU time is idle |
//! | [`random`] | reproducible random numbers |
//! | [`progress`] | the progress of a long run |
//! | [`chart`] | pictures of curves, bars and stacks |

pub mod bootstrap;
pub mod chart;
pub mod idle;
pub mod progress;
pub mod random;
pub mod statistics;
