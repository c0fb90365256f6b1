//! `kubernetes`: measures the RuntimeClasses of a cluster, on one of its nodes.
//!
//! | part | what |
//! |---|---|
//! | [`cluster`] | kubectl, a namespace, pods |
//! | [`metrics`] | the kubelet's histograms |
//! | [`node`] | CPU time, mounts and shims of the node |
//! | [`work`] | measures each kind of work once |
//!
//! The kubelet measures how long a pod takes to start. The node's CPU time is that of all processes
//! except kubectl: on a node that is also the control plane, the API server and etcd are included.

mod cluster;
mod metrics;
mod node;
mod work;

use crate::Error;
use crate::circumstances::Circumstances;
use crate::options::{Kubernetes, Load};
use crate::results::figures::{self, Sample};
use crate::results::{self, Out};
use crate::session::{self, Outcome};
use cluster::Cluster;
use measure::progress::Progress;
use report::interrupt;
use std::path::Path;

/// Executes the command.
///
/// # Errors
/// No kubectl, cluster, node or class of that name; a file that can't be written; an interrupt.
pub fn command(options: &Kubernetes) -> Result<(), Error> {
    if options.interval.as_secs() == 0 && options.work.contains(&Load::Probes) {
        return Err(Error::Unfit("--interval: Kubernetes probes once a second at most".to_owned()));
    }
    options.forms.check_directories()?;
    let cluster = Cluster::reach(options)?;
    for class in &options.classes {
        cluster.has_class(class)?;
    }
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); options.classes.len()];
    let mut out: Vec<Out> = Vec::new();
    let mut progress = Progress::new();
    let all = options.rounds * options.work.len() * options.classes.len();
    let mut done = 0;
    for round in 0..options.rounds {
        for &load in &options.work {
            for turn in 0..options.classes.len() {
                progress.tell("kubernetes, measurements", done, all);
                done += 1;
                interrupt::check()?;
                let at = (round + turn) % options.classes.len();
                let class = &options.classes[at];
                if out.iter().any(|out| out.runtime == *class) {
                    continue;
                }
                match work::go(options, &cluster, class, load)? {
                    Ok(sample) => samples[at].push(sample),
                    Err(reason) => out.push(Out { runtime: class.clone(), reason }),
                }
            }
        }
    }
    drop(progress);
    let version = cluster.version.clone();
    drop(cluster);
    let classes = || options.classes.iter().map(String::as_str);
    let mut figures = figures::gather(classes(), samples);
    let first = classes().find(|class| out.iter().all(|out| out.runtime != *class));
    let first = first.unwrap_or_default();
    figures::compare(&mut figures, first);
    let record = Circumstances::take("pods".to_owned(), Vec::new(), Path::new("/run"));
    let nobody = out.len() == options.classes.len();
    let outcome = Outcome {
        text: format!("Kubernetes: {version}\n\n{}", figures::text(&figures, first)),
        json: vec![
            ("kubernetes", results::value(&version)?),
            ("figures", results::value(&figures)?),
        ],
        csv: figures::csv(&figures),
        pictures: figures::pictures(&figures),
        ..Outcome::default()
    };
    session::tell(&options.forms, &record, &out, nobody, outcome)?;
    match nobody {
        true => Err(Error::Unfit("no RuntimeClass got through".to_owned())),
        false => Ok(()),
    }
}
