//! What an experiment results in.

use host::measure::chart::Picture;
use serde_json::Value;

/// The results of an experiment.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The experiment's tables.
    pub text: String,
    /// The experiment's results by name.
    pub json: Vec<(&'static str, Value)>,
    /// The experiment's samples.
    pub csv: String,
    /// The experiment's pictures.
    pub pictures: Vec<Picture>,
    /// Output that replaces the circumstances and the tables, if there is any.
    pub document: Option<String>,
}
