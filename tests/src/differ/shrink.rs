//! Makes a failing case small: drops parts while the difference remains.

use serde_json::Value;

/// Returns the smallest case that was found for which `fails` is still true. Calls `fails` at most `most` times.
pub fn shrink(case: &Value, most: usize, mut fails: impl FnMut(&Value) -> bool) -> Value {
    let mut smallest = case.clone();
    let mut calls = 0;
    loop {
        let mut is_smaller = false;
        // The deepest last: whole branches are dropped first.
        let mut paths = paths(&smallest);
        paths.sort_by_key(|path| path.matches('/').count());
        for path in paths.into_iter().rev().collect::<Vec<_>>().into_iter().rev() {
            if calls >= most {
                return smallest;
            }
            let Some(candidate) = without(&smallest, &path) else { continue };
            calls += 1;
            if fails(&candidate) {
                smallest = candidate;
                is_smaller = true;
            }
        }
        if !is_smaller {
            return smallest;
        }
    }
}

/// What no case can do without.
const KEPT: &[&str] = &[
    "/config",
    "/config/ociVersion",
    "/config/root",
    "/config/root/path",
    "/config/process",
    "/config/process/args",
    "/config/process/cwd",
    "/config/process/user",
    "/config/process/user/uid",
    "/config/process/user/gid",
    "/config/process/env",
    "/config/linux",
    "/config/linux/namespaces",
    "/image",
    "/rootless",
    "/config/mounts",
];

/// Returns a pointer to each part that can be dropped; of a list, the last element first.
fn paths(case: &Value) -> Vec<String> {
    fn go(value: &Value, path: &str, all: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    all.push(path.clone());
                    go(member, &path, all);
                }
            }
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate().rev() {
                    let path = format!("{path}/{index}");
                    all.push(path.clone());
                    // Of small objects, every part counts.
                    go(element, &path, all);
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    go(case, "", &mut all);
    let is_required = |path: &String| {
        let last = path.rsplit('/').next().unwrap_or_default();
        KEPT.contains(&path.as_str())
            || ["destination", "kind", "path", "containerID", "hostID", "size"].contains(&last)
    };
    all.retain(|path| !is_required(path));
    all
}

fn without(case: &Value, path: &str) -> Option<Value> {
    let mut smaller = case.clone();
    let (parent, last) = path.rsplit_once('/')?;
    match smaller.pointer_mut(parent)? {
        Value::Object(members) => {
            _ = members.remove(&last.replace("~1", "/").replace("~0", "~"))?
        }
        Value::Array(elements) => {
            let index: usize = last.parse().ok()?;
            if index >= elements.len() {
                return None;
            }
            elements.remove(index);
        }
        _ => return None,
    }
    Some(smaller)
}

#[cfg(test)]
mod tests {
    use super::shrink;
    use serde_json::json;

    #[test]
    fn only_what_matters_stays() {
        let case = json!({ "config": { "process": { "args": ["a", "b"] }, "mounts": [{ "destination": "/a" },
            { "destination": "/b", "options": ["ro", "rw"] }], "hostname": "x" }, "image": [1, 2] });
        let fails = |case: &serde_json::Value| case.to_string().contains("\"ro\"");
        let small = shrink(&case, 1000, fails);
        assert_eq!(
            small,
            json!({ "config": { "process": { "args": [] },
            "mounts": [{ "destination": "/b", "options": ["ro"] }] }, "image": [] })
        );
    }
}
