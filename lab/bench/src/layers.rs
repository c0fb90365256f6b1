//! `layers`: times starts from root filesystems with few and with many layers, in every mode of assembling a root
//! filesystem.
//!
//! Mount points, and the files that containers change, are in memory. Only the mount work of single containers is also
//! measured with mount points on the disk of the temporary directory.
//!
//! dayfly assembles a root filesystem from layers itself. For other runtimes, the experiment mounts the layers on the
//! host, as an engine does.

mod operations;
mod stack;
mod work;

use crate::burst::{self, Load};
use crate::engine::{Image, Mapping};
use crate::harness::*;
use crate::placement;
use crate::results::judged;
use crate::runtime::Runtime;
use stack::Stack;
use work::Work;

/// `layers`.
#[derive(Debug, Args)]
pub struct Layers {
    /// Ways to assemble the root filesystem; those that mount layers on the host are also used for other runtimes
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fd,parent,per-layer,copy")]
    pub modes: Vec<Mode>,
    /// Number of layers of the root filesystem
    #[arg(long, value_delimiter = ',', value_parser = some, default_value = "1,10,50,100,500")]
    pub layers: Vec<usize>,
    /// Number of starts at a time
    #[arg(long, value_delimiter = ',', value_parser = some, default_value = "1,4,16,100")]
    pub width: Vec<usize>,
    /// Starts per round, at least the number of starts at a time
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 16)]
    pub count: usize,
    /// Rounds of each way with each number of layers
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 5)]
    pub rounds: usize,
    /// Also time the mount work of so many single containers, with mount points in memory and on disk
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub work: usize,
    /// Use no user namespaces, so that the ids of layers need no mapping
    #[arg(long)]
    pub host_ids: bool,
    /// Also run dayfly from the CPUs of each placement that this host has: one a core, of one node, of one cache
    #[arg(long)]
    pub placements: bool,
    /// Let dayfly keep what containers change in memory
    #[arg(long)]
    pub ephemeral: bool,
}

/// Where mount points are, and the files that containers change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On a tmpfs
    Memory,
    /// In the temporary directory
    Disk,
}

impl Place {
    /// Returns the directory, below those of the test stand.
    fn directory(self, stand: &Stand) -> PathBuf {
        match self {
            Self::Memory => stand.state.join("store"),
            Self::Disk => stand.directory.join("store"),
        }
    }
}

/// A way to assemble a root filesystem from layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One detached, id-mapped copy of the layers' parent directory, which is not in the host's
    /// mount table
    Fd,
    /// One attached, id-mapped copy of the layers' parent directory
    Parent,
    /// An attached, id-mapped mount per layer
    PerLayer,
    /// A copy of all files, owned by the container's ids
    Copy,
}

/// The environment variable with the path of the store: the directory of images, and of files that containers change
/// (dayfly(8)).
const STORE: &str = "DAYFLY_STORE";

/// A runtime, a way of assembling its root filesystem, and a number of layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Case {
    pub(crate) runtime: String,
    /// The name of the way: one of dayfly's modes, or `overlay` if another runtime's layers are mounted without id
    /// mapping.
    pub(crate) mode: String,
    pub(crate) layers: usize,
}

impl Case {
    /// Returns the names of the runtime and of the way.
    fn way(&self) -> String {
        format!("{}, {}", self.runtime, self.mode)
    }

    fn name(&self) -> String {
        format!("{}, {}", self.way(), counted(self.layers, "layer"))
    }
}

/// The results of a case with one number of starts at a time.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) case: Case,
    pub(crate) width: usize,
    #[serde(flatten)]
    pub(crate) load: Load,
}

impl Experiment for Layers {
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        let entrants = session::all(common)?;
        if self.placements { placement::placed(entrants) } else { Ok(entrants) }
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let (cases, racers) = self.cases(stand, entrants, Place::Memory)?;
        burst::warm_up(stand, &racers, &[])?;
        let mut works = Vec::new();
        for place in [Place::Memory, Place::Disk].into_iter().filter(|_| self.work > 0) {
            let (cases, racers) = self.cases(stand, entrants, place)?;
            works.extend(work::measure(stand, place, (&cases, &racers), self.work)?);
        }
        let counted = operations::count(stand, &cases, &racers)?;
        let idle = burst::idle();
        let mut rows = Vec::new();
        for &width in &self.width {
            let burst = [width, self.count.max(width), self.rounds];
            let loads = burst::bursts(stand, &racers, burst)?;
            let loads = cases.iter().zip(loads).filter(|(_, load)| !load.is_empty());
            rows.extend(loads.map(|(case, load)| Row { case: case.clone(), width, load }));
        }
        for entrant in entrants {
            let of = || cases.iter().zip(&racers).filter(|(case, _)| case.runtime == entrant.name);
            if let Some(reason) = of().find_map(|(_, racer)| racer.failure())
                && of().all(|(_, racer)| racer.is_out())
            {
                entrant.leave(reason);
            }
        }
        let mut figures = Figures::default();
        for Row { case, width, load } in &rows {
            let what =
                format!("{width} at a time, {}", report::count::counted(case.layers, "layer"));
            load.add_to(&mut figures, &what, &case.way());
        }
        operations::add_to(&mut figures, &counted);
        for Work { case, place, times_us } in &works {
            let layers = report::count::counted(case.layers, "layer");
            let what =
                format!("mount work of a container of {layers}, mount points: {}", place.name());
            figures.singles(what, "ms", &case.way(), times_us.iter().map(|us| us / 1e3));
        }
        idle.add_to(&mut figures, "an idle host", "(idle)");
        let first = cases.first().map(Case::way).unwrap_or_default();
        let mut outcome = figures.outcome(&first);
        outcome.pictures = pictures(&rows);
        outcome.text += &growth(&rows);
        if counted.is_empty() {
            outcome.text +=
                "This kernel does not report mounts (Linux 6.15 does): none were counted.\n";
        }
        outcome.text += &results::failures_text(&results::failures(&racers));
        for Row { case, width, load } in &rows {
            outcome.text += &load.failures(&format!("{}, {width} at a time", case.name()));
        }
        if entrants.iter().any(|entrant| !entrant.runtime.is_dayfly()) {
            outcome.text += FOR_PEERS;
        }
        let outcome = outcome.with("idle", &idle)?.with("mount_operations", &counted)?;
        outcome.with("mount_work", &works)?.with("rows", &rows)
    }
}

impl Layers {
    /// Returns every case, and the entrant that runs it.
    fn cases(
        &self,
        stand: &Stand,
        entrants: &[Entrant],
        place: Place,
    ) -> Result<(Vec<Case>, Vec<Entrant>), Error> {
        let most = self.layers.iter().copied().max().unwrap_or(1);
        let stack = Stack::make(&stand.directory.join("layers"), most)?;
        let elsewhere = (place == Place::Memory).then(|| place.directory(stand));
        let mut racers = Vec::new();
        for &layers in &self.layers {
            let list = stack.list(layers)?;
            for entrant in entrants {
                let case = |mode| Case { runtime: entrant.name.clone(), mode, layers };
                if entrant.runtime.is_dayfly() {
                    racers.extend(self.modes.iter().map(|mode| {
                        let mut racer =
                            own(stand, (&entrant.runtime, place), *mode, &list, self.host_ids);
                        racer.start_options.extend(entrant.start_options.iter().cloned());
                        racer.start_options.extend(self.ephemeral.then(|| "--ephemeral".into()));
                        (case(mode.name()), racer)
                    }));
                    continue;
                }
                for (mode, mapping) in ways_of_engines(self) {
                    let image = Image::new(
                        stack.directory(),
                        stack.names(layers),
                        mapping,
                        elsewhere.clone(),
                    )?;
                    racers.push((case(mode), Entrant { image: Some(image), ..entrant.clone() }));
                }
            }
        }
        Ok(racers
            .into_iter()
            .map(|(case, racer)| (case.clone(), racer.called(case.name())))
            .unzip())
    }
}

/// Returns the ways in which layers are mounted on the host for other runtimes: the requested modes that mount layers
/// on the host. If no such mode is requested, `parent` is the only way.
fn ways_of_engines(options: &Layers) -> Vec<(String, Mapping)> {
    if options.host_ids {
        return vec![("overlay".to_owned(), Mapping::None)];
    }
    let mapping = |mode: &Mode| match mode {
        Mode::Parent => Some((mode.name(), Mapping::Parent)),
        Mode::PerLayer => Some((mode.name(), Mapping::PerLayer)),
        Mode::Fd | Mode::Copy => None,
    };
    let ways: Vec<_> = options.modes.iter().filter_map(mapping).collect();
    if ways.is_empty() { vec![(Mode::Parent.name(), Mapping::Parent)] } else { ways }
}

/// The explanation of the other runtimes' figures.
const FOR_PEERS: &str = "Other runtimes take a directory. For them the same layers are mounted as an overlay on the host \
    before run, and unmounted after it, as an engine does: that is in their times. With user namespaces all of them \
    have the same ids; what a container has changed is removed after its time.\n";

/// Makes `layers` layers in the test stand's directory, and returns an entrant for each of `modes`. Each entrant is a
/// copy of the first of `entrants`, which must be a dayfly.
///
/// # Errors
/// Those of making layers.
pub(crate) fn racers(
    stand: &Stand,
    entrants: &[Entrant],
    layers: usize,
    modes: &[Mode],
) -> Result<Vec<Entrant>, Error> {
    let Some(first) = entrants.first() else { return Ok(Vec::new()) };
    let list = Stack::make(&stand.directory.join("layers"), layers)?.list(layers)?;
    let racer = |&mode: &Mode| Entrant {
        name: format!("{}, {}", mode.name(), counted(layers, "layer")),
        ..own(stand, (&first.runtime, Place::Memory), mode, &list, false)
    };
    Ok(modes.iter().map(racer).collect())
}

/// Returns dayfly with options for the layers of `list`. The store is in a directory of the test stand. So the changes
/// that containers make, and the mounts that killed containers leave, are removed with the test stand.
fn own(
    stand: &Stand,
    (runtime, place): (&Runtime, Place),
    mode: Mode,
    list: &str,
    host_ids: bool,
) -> Entrant {
    let userns = if host_ids { "host" } else { "auto" };
    let mode = mode.name();
    let words = ["--layers", list, "--rootfs-mode", &mode, "--userns", userns];
    let store = place.directory(stand).display().to_string();
    Entrant {
        start_options: words.map(str::to_owned).to_vec(),
        environment: vec![(STORE.to_owned(), store)],
        ..Entrant::new(runtime.clone())
    }
}

/// Formats how much longer starts take with more layers than with the fewest.
fn growth(rows: &[Row]) -> String {
    let ratio = |row: &&Row| {
        let same = |it: &&Row| (it.width, it.case.way()) == (row.width, row.case.way());
        let fewest = rows.iter().find(same).filter(|it| it.case != row.case)?;
        let [these, those] = [row, fewest].map(|row| row.load.latencies_us.as_slice());
        bootstrap::ratio(these, those, Pairing::Independent)
    };
    let table = Table::of(
        rows,
        &[
            ("", &|row| row.case.name()),
            ("at a time", &|row| row.width.to_string()),
            ("with the fewest layers = 1", &|row| {
                ratio(row).map(judged).unwrap_or_default().join(" ")
            }),
        ],
    );
    format!("{table}\n")
}

/// Draws the latency and the host's responsiveness as functions of the number of layers, for each number of starts at a
/// time.
fn pictures(rows: &[Row]) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for at_width in rows.chunk_by(|a, b| a.width == b.width) {
        let mut draw = |title: &str, unit: &str, us: &dyn Fn(&Row) -> Option<f64>| {
            let points = at_width
                .iter()
                .filter_map(|row| Some((row.case.way(), (row.case.layers as f64, us(row)? / 1e3))));
            let title = format!("{title}, {} at a time", at_width[0].width);
            let axes = [Axis::logarithmic("layers"), Axis::logarithmic(unit)];
            pictures.push(results::chart(title, axes, Form::Curves, points));
        };
        draw("start to end of a container", "ms, median", &|row| {
            Summary::of(&row.load.latencies_us).map(|times| times.median)
        });
        draw("the host meanwhile", "ms to read mountinfo, p99", &|row| {
            Summary::of(&row.load.health.read_us).map(|times| times.p99)
        });
    }
    pictures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    fn ways(words: &[&str]) -> Vec<(String, Mapping)> {
        ways_of_engines(&parse(words).expect("options"))
    }

    #[test]
    fn layers_are_mounted_for_peers_as_for_dayfly() {
        let parent = ("parent".to_owned(), Mapping::Parent);
        let per_layer = ("per-layer".to_owned(), Mapping::PerLayer);
        assert_eq!(ways(&[]), [parent.clone(), per_layer.clone()]);
        assert_eq!(ways(&["--modes", "fd,per-layer"]), [per_layer]);
        assert_eq!(ways(&["--modes", "fd"]), [parent]);
        assert_eq!(ways(&["--host-ids"]), [("overlay".to_owned(), Mapping::None)]);
    }
}
