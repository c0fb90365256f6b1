//! A cluster, accessed through kubectl.

use super::Kubernetes;
use crate::harness::*;
use std::cell::Cell;
use std::io::{Seek, Write};

/// The timeout of a call that does not wait for pods.
const SOON: Duration = Duration::from_secs(60);

/// The cluster, with a namespace of this process's own. Dropping the cluster deletes the namespace with its pods.
#[derive(Debug)]
pub(super) struct Cluster {
    kubectl: PathBuf,
    namespace: String,
    /// The node's name.
    pub(super) node: String,
    /// The kubelet's version.
    pub(super) version: String,
    image: String,
    /// The CPU time of all calls, in milliseconds.
    spent_ms: Cell<f64>,
}

impl Cluster {
    /// Finds the node, and makes a namespace.
    ///
    /// # Errors
    /// kubectl is missing or cannot access a cluster; the node does not exist; or no node is named
    /// and the cluster has several.
    pub(super) fn reach(options: &Kubernetes) -> Result<Self, Error> {
        let mut cluster = Self {
            kubectl: options.kubectl.clone(),
            namespace: String::new(),
            node: String::new(),
            version: String::new(),
            image: options.image.clone(),
            spent_ms: Cell::new(0.0),
        };
        let path = "jsonpath={range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}{\"\\n\"}{end}";
        let nodes = cluster.must(&["get", "nodes", "-o", path])?;
        let mut nodes: Vec<(&str, &str)> =
            nodes.lines().filter_map(|line| line.split_once(' ')).collect();
        if let Some(name) = &options.node {
            nodes.retain(|node| node.0 == name);
        }
        let [(node, version)] = nodes[..] else {
            return Err(Error::Unfit(match (&options.node, nodes.len()) {
                (Some(name), _) => format!("the cluster has no node {name}"),
                (None, 0) => "the cluster has no node".to_owned(),
                (None, count) => format!("the cluster has {count} nodes: --node names this one"),
            }));
        };
        (cluster.node, cluster.version) = (node.to_owned(), version.to_owned());
        let namespace = format!("dayfly-bench-{}", std::process::id());
        cluster.must(&["create", "namespace", &namespace])?;
        cluster.namespace = namespace;
        Ok(cluster)
    }

    /// Checks that there is a RuntimeClass `name`.
    ///
    /// # Errors
    /// The RuntimeClass does not exist.
    pub(super) fn has_class(&self, name: &str) -> Result<(), Error> {
        self.must(&["get", "runtimeclass", name, "-o", "name"]).map(|_| ())
    }

    /// Returns the kubelet's metrics, in Prometheus' text format.
    ///
    /// # Errors
    /// The API server does not forward the request.
    pub(super) fn metrics(&self) -> Result<String, Error> {
        self.must(&["get", "--raw", &format!("/api/v1/nodes/{}/proxy/metrics", self.node)])
    }

    /// Returns the CPU time of all calls of kubectl so far, in milliseconds.
    pub(super) fn spent_ms(&self) -> f64 {
        self.spent_ms.get()
    }

    /// Makes objects in the namespace.
    ///
    /// # Errors
    /// kubectl's error.
    pub(super) fn create(&self, objects: &[Value]) -> Result<(), Error> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.call(&["create", "-f", "-"], &list.to_string(), SOON * 2).map(|_| ())
    }

    /// Waits until the objects that `object` names meet `condition`, such as `Ready`.
    ///
    /// # Errors
    /// The condition is not met within the deadline; kubectl's error.
    pub(super) fn wait(
        &self,
        condition: &str,
        object: &[&str],
        deadline: Duration,
    ) -> Result<(), Error> {
        self.until(&["wait", &format!("--for=condition={condition}")], object, deadline)
    }

    /// Deletes objects, and waits until they are gone.
    ///
    /// # Errors
    /// If they still exist at the deadline; kubectl's error.
    pub(super) fn delete(&self, object: &[&str], deadline: Duration) -> Result<(), Error> {
        self.until(&["delete", "--wait=true"], object, deadline)
    }

    /// Returns the specification of a pod with one container, which runs `script` with sh.
    pub(super) fn pod_of(&self, class: &str, script: &str, restart: &str) -> Value {
        json!({
            "runtimeClassName": class,
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main",
                "image": self.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", script],
            }],
        })
    }

    /// Runs a command that waits until something has happened to the object, at most for this time.
    fn until(&self, verb: &[&str], object: &[&str], deadline: Duration) -> Result<(), Error> {
        let timeout = format!("--timeout={}s", deadline.as_secs().max(1));
        let words = [verb, &[timeout.as_str()], object].concat();
        self.call(&words, "", deadline + SOON).map(drop)
    }

    /// Calls kubectl like [`Self::call`]. A failure is an error of the experiment, rather than of one RuntimeClass.
    fn must(&self, words: &[&str]) -> Result<String, Error> {
        let said = self.call(words, "", SOON);
        said.map_err(|reason| unfit!("kubectl {}: {reason}", words.join(" ")))
    }

    /// Calls kubectl; returns its output. The error is the last line that kubectl wrote to standard error.
    fn call(&self, words: &[&str], input: &str, deadline: Duration) -> Result<String, Error> {
        let files = || {
            let mut stdin = process::in_memory()?;
            stdin.write_all(input.as_bytes())?;
            stdin.rewind()?;
            Ok((stdin, process::captured()?, process::captured()?))
        };
        let (stdin, (output, stdout), (errors, stderr)) =
            files().map_err(Error::at("write", Path::new("memfd")))?;
        let mut command = Command::new(&self.kubectl);
        if !self.namespace.is_empty() {
            command.arg("--namespace").arg(&self.namespace);
        }
        command.args(words).stdin(stdin).stdout(stdout).stderr(stderr);
        match process::run(&mut command, deadline) {
            Ok(sample) => {
                let ms = sample.usage.cpu().as_secs_f64() * 1e3;
                self.spent_ms.set(self.spent_ms.get() + ms);
                Ok(process::content(&output))
            }
            Err(Failure::Spawn(error)) => {
                let kubectl = self.kubectl.display();
                Err(Error::Out(format!("execute {kubectl}: {error}; --kubectl names it")))
            }
            Err(failure) => {
                let said = process::content(&errors);
                let said = said.trim().lines().last();
                Err(Error::Out(said.map_or_else(|| failure.to_string(), str::to_owned)))
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.namespace.is_empty() {
            return;
        }
        let namespace = std::mem::take(&mut self.namespace);
        let gone = self.delete(&["namespace", &namespace], SOON * 3);
        if let Err(reason) = gone {
            eprintln!("warning: delete namespace {namespace}: {reason}");
        }
    }
}
