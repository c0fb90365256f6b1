# Lists the contents of a package's programs as CycloneDX 1.5, from `cargo metadata`, for scripts/dist.
#
# It includes the crates that the roots reach by normal dependencies; build and test dependencies, and macros, are not in a
# program. cargo-cyclonedx would write a document for each crate of the workspace, to be merged by another tool, and omits
# std and musl, which are in the programs as well.

. as $metadata
| ([.packages[] | {key: .id, value: .}] | from_entries) as $packages
| def in_programs: any($packages[.].targets[].kind[]; . == "proc-macro") | not;
  ([.resolve.nodes[]
    | {key: .id, value: [.deps[] | select(any(.dep_kinds[]; .kind == null)) | .pkg | select(in_programs)]}]
    | from_entries) as $needs
| def reached($seen; $next):
    if $next == [] then $seen
    else ($seen + $next | unique) as $all | reached($all; ([$next[] | $needs[.][]] | unique) - $all) end;
  def ref: $packages[.] | "\(.name)@\(.version)";
  def component:
    $packages[.]
    | {type: "library", "bom-ref": "\(.name)@\(.version)", name, version}
    + (if .license then {licenses: [{expression: (.license | gsub(" ?/ ?"; " OR "))}]} else {} end)
    + (if .source then {
        purl: "pkg:cargo/\(.name)@\(.version)",
        hashes: [{alg: "SHA-256", content: $checksums[0]["\(.name)-\(.version)"]}],
      } else {} end);
  [.packages[] | select(.source == null and (.name as $name | $roots | any(. == $name))) | .id] as $from
| reached([]; $from) as $all
| "dayfly@\($version)" as $self
| {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    # Derived from the commit and the architecture, so that it is reproducible.
    serialNumber: "urn:uuid:\($serial[0:8])-\($serial[8:12])-5\($serial[13:16])-8\($serial[17:20])-\($serial[20:32])",
    version: 1,
    metadata: {
      timestamp: ($epoch | tonumber | todate),
      component: {
        type: "application", "bom-ref": $self, name: "dayfly", version: $version,
        licenses: [{expression: "Apache-2.0"}],
        properties: [{name: "commit", value: $commit}, {name: "architecture", value: $arch}],
      },
    },
    components: ([$all[] | component] + [
      {type: "library", "bom-ref": "rust-std@\($rust)", name: "rust-std", version: $rust,
        licenses: [{expression: "MIT OR Apache-2.0"}]},
      {type: "library", "bom-ref": "musl@\($musl)", name: "musl", version: $musl, licenses: [{expression: "MIT"}]}
    ] | sort_by(."bom-ref")),
    dependencies: ([{ref: $self, dependsOn: ([$from[] | ref] + ["rust-std@\($rust)", "musl@\($musl)"] | sort)}]
      + ([$all[] | {ref: ref, dependsOn: ([$needs[.][] | ref] | unique)}] | sort_by(.ref))),
  }
