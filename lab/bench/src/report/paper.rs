//! The content of papers and articles, and the experiments that reproduce it here. The data are in `papers/*.toml`.

use super::Report;
use super::lack::Lack;
use super::line::Line;
use super::verdict::Rule;
use crate::base::*;
use crate::circumstances::Circumstances;
use std::sync::LazyLock;

/// All papers and articles, in the order of the page. A unit test reads all files.
pub static PAPERS: LazyLock<Vec<Paper>> = LazyLock::new(|| {
    let files = [
        include_str!("papers/hosts.toml"),
        include_str!("papers/favordynmods.toml"),
        include_str!("papers/mounts.toml"),
        include_str!("papers/groups.toml"),
        include_str!("papers/five_ms.toml"),
        include_str!("papers/container_runtime.toml"),
    ];
    files.map(|file| toml::from_str(file).expect("data of a paper")).into()
});

/// A paper or an article. The texts are fields of the page's JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The title of the paper.
    pub title: String,
    /// The authors, the place of publication and the year.
    pub by: String,
    /// The machine on which the published figures were measured.
    pub on: String,
    /// The paper's experiments, in the paper's order.
    #[serde(rename = "part", skip_serializing)]
    pub parts: Vec<Part>,
}

/// A part of the paper, such as a diagram or a table.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The name of the part in options.
    #[serde(rename(serialize = "part"))]
    pub name: String,
    /// The place of the part in the paper.
    pub place: String,
    /// A description of the part's figures in the paper, and of the figures measured here.
    pub about: String,
    /// The method by which the part is reproduced here.
    #[serde(skip_serializing)]
    pub way: Way,
    /// Whether the measured figures are drawn as bars although nothing is published.
    #[serde(default, skip_serializing)]
    pub bars: bool,
    /// Whether the page shows the picture that the experiment draws, in place of bars of published and measured figures.
    #[serde(default, skip_serializing)]
    pub own: bool,
    /// The rules for the verdict on the part; none if the part is of no publication.
    #[serde(default, rename = "verdict", skip_serializing)]
    pub rules: Vec<Rule>,
    /// The part's figures, published and measured.
    #[serde(rename = "line", skip_serializing)]
    pub lines: Vec<Line>,
    /// Sentences about results that a host cannot reproduce, and about those that the page shows instead.
    #[serde(default, skip_serializing)]
    pub instead: Vec<Instead>,
}

/// The method by which a part is reproduced.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// By an experiment.
    Experiment(Experiment),
    /// By a script that runs an experiment in a virtual machine, because the experiment would change this host, or
    /// needs something that this host lacks.
    Guest(Guest),
    /// Not reproduced by this command; the text gives the reason and the alternative.
    Nothing(String),
}

/// A script in dayfly's source. The report shows the script's results if they are in the subdirectory `guest` of the
/// report's directory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// The script with its options; the next argument is the directory for the results.
    pub script: String,
    /// The name of the files with the results, without their extensions: JSON and a picture.
    pub file: String,
    /// The reason why the experiment runs in a virtual machine.
    pub why: String,
}

/// An experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The arguments after `dayfly`.
    pub command: String,
    /// Arguments that are added for a quick report (10 minutes).
    #[serde(default)]
    pub quick: String,
    /// Arguments that are added for a full report (an hour).
    #[serde(default)]
    pub full: String,
    /// Arguments that are added if this host can limit CPU and memory by cgroups.
    #[serde(default)]
    pub limits: String,
    /// The experiment's duration in seconds in a quick and in a full report, on two CPUs, with two other runtimes
    /// beside dayfly.
    pub seconds: [u64; 2],
    /// The runtimes that take part.
    #[serde(default)]
    pub runtimes: Runtimes,
    /// What the host must not lack, and the reason.
    #[serde(default)]
    pub needs: Vec<Instead>,
    /// Whether the experiment draws no picture of its own.
    #[serde(default)]
    pub undrawn: bool,
}

/// The runtimes that take part in an experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtimes {
    /// All runtimes.
    #[default]
    All,
    /// All runtimes, named on the experiment's command line, because its default is only dayfly.
    Named,
    /// Only dayfly.
    Own,
    /// Only dayfly, with memory limits: in the host's own view if the report's view has no memory controller.
    OwnLimited,
    /// All runtimes, with memory limits: in another view if the report's view has no memory controller.
    AllLimited,
    /// No runtime: the experiment examines the host.
    None,
}

/// A sentence about results that a host cannot reproduce.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instead {
    /// What the host lacks, at least one of these. The sentence is for all hosts if there are none.
    #[serde(default)]
    pub on: Vec<Lack>,
    /// The sentence, in which `{cpus}`, `{nodes}` and `{favordynmods}` stand for what the host has.
    pub text: String,
}

impl Part {
    /// Returns why the part has no result unless another machine has measured it; `None` for an experiment.
    pub fn lacking(&self, host: &Circumstances) -> Option<String> {
        match &self.way {
            Way::Experiment(experiment) => {
                let lacks = |it: &&Instead| it.on.iter().any(|lack| lack.is_of(host));
                experiment.needs.iter().find(lacks).map(|it| it.text.clone())
            }
            Way::Guest(guest) => Some(guest.missing()),
            Way::Nothing(why) => Some(why.clone()),
        }
    }

    /// Returns the sentences for this host, if any.
    pub fn instead(&self, host: &Circumstances) -> Option<String> {
        let has = if host.cgroup_mount.contains("favordynmods") { "with" } else { "without" };
        let text = |of: &Instead| {
            let text = of.text.replace("{cpus}", &counted(host.cpus, "CPU"));
            let text = text.replace("{nodes}", &counted(host.nodes, "memory node"));
            text.replace("{favordynmods}", has)
        };
        let is_for = |of: &&Instead| of.on.is_empty() || of.on.iter().any(|lack| lack.is_of(host));
        let texts: Vec<String> = self.instead.iter().filter(is_for).map(text).collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }

    /// Returns whether the part's experiment draws a picture of its own.
    pub fn draws(&self) -> bool {
        match &self.way {
            Way::Experiment(experiment) => !experiment.undrawn,
            Way::Guest(_) => true,
            Way::Nothing(_) => false,
        }
    }
}

impl Guest {
    /// Returns the command that makes the results, where `DIR` stands for the report's directory.
    pub fn line(&self) -> String {
        format!("{} DIR/{}", self.script, super::kept::GUEST)
    }

    /// Returns the report's text about the missing results.
    fn missing(&self) -> String {
        format!(
            "{}. In the source of dayfly, \"{}\" measures it in a virtual machine; the report in DIR then shows it.",
            self.why,
            self.line()
        )
    }
}

impl Experiment {
    /// Returns the duration on two CPUs.
    pub fn seconds(&self, quick: bool) -> u64 {
        self.seconds[usize::from(!quick)]
    }

    /// Returns whether the experiment is one of this program; otherwise it is one of `dayfly host`.
    pub fn is_bench(&self) -> bool {
        self.command.starts_with("bench ")
    }

    /// Returns the arguments of the command, after `dayfly`.
    pub fn words(&self, name: &str, options: &Report, host: &Circumstances) -> Vec<String> {
        let more = if options.quick { &self.quick } else { &self.full };
        let can_limit = ["cpu", "memory"].into_iter().all(crate::cgroup::can_limit);
        let limits = if can_limit { &self.limits } else { "" };
        let texts = [&self.command, more, limits];
        let words = texts.iter().flat_map(|text| text.split_whitespace());
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        let has_containers = self.is_bench() && self.runtimes != Runtimes::None;
        let is_limited = [Runtimes::OwnLimited, Runtimes::AllLimited].contains(&self.runtimes);
        if let Some(view) = options.view.filter(|_| has_containers && !is_limited) {
            words.extend(["--view".to_owned(), view.name().to_owned()]);
        }
        if options.no_device_rules && has_containers {
            words.push("--no-device-rules".to_owned());
        }
        let most = match self.runtimes {
            Runtimes::None => 0,
            Runtimes::Own | Runtimes::OwnLimited => 1,
            Runtimes::All | Runtimes::Named | Runtimes::AllLimited => usize::MAX,
        };
        let mut taking_part: Vec<&String> = options.runtimes.iter().take(most).collect();
        if self.runtimes == Runtimes::Named && taking_part.is_empty() {
            taking_part.extend(host.runtimes.iter().map(|runtime| &runtime.name));
        }
        for runtime in taking_part {
            words.extend(["--runtime".to_owned(), runtime.clone()]);
        }
        if let Some(rounds) = options.rounds.filter(|_| self.is_bench()) {
            // If an experiment has several of these options, the first one sets the number of rounds.
            let names = ["--rounds", "--count", "-n"].into_iter();
            let at = names.filter_map(|name| words.iter().position(|word| word == name)).next();
            if let Some(value) = at.and_then(|at| words.get_mut(at + 1)) {
                *value = rounds.to_string();
            }
        }
        if !self.undrawn {
            words.extend(["--svg".to_owned(), format!("{name}.svg")]);
        }
        words
    }

    /// Returns the option for JSON output.
    pub fn as_json(&self) -> &'static [&'static str] {
        if self.is_bench() { &["--json"] } else { &["--format", "json"] }
    }
}
