# Other projects' suites: what they do with dayfly is judged by what they do with another runtime; and the images that they ask
# for, made here and served by a registry in the bed's network namespace, under the names that they know.
# shellcheck shell=sh disable=SC2154

# Rows are lines: passed, failed or skipped; the name of a case; why it failed. Between them is a tab.
tab=$(printf '\t')

# REPORT: prints the rows of a JSON report of ginkgo.
ginkgo_rows() {
    jq -r '.[].SpecReports[] | select(.LeafNodeType == "It" and (.State | IN("skipped", "pending") | not)) |
        [.State, (.ContainerHierarchyTexts + [.LeafNodeText] | join(" ")), (.Failure.Message // "" | gsub("[ \n\t]+"; " ") | .[:300])] | @tsv' "$1"
}
# LOG: prints the rows of the output of a Go test with -test.v: of its tests, not of their parts.
go_rows() {
    awk '/^=== (RUN|NAME) / { why = "" } /^ +[a-z_0-9]+\.go:[0-9]+: / && why == "" { why = $0 }
        /^--- (PASS|FAIL|SKIP): / { print (/PASS/ ? "passed" : /FAIL/ ? "failed" : "skipped") "\t" $3 "\t" why; why = "" }' "$1"
}
# FILE: prints how many rows are in each state.
row_counts() { cut -f 1 "$1" | sort | uniq -c | tr -s ' \n' ' '; }
# OWN REFERENCE: counts the rows of dayfly in the file OWN. What does not pass with the reference is skipped with its reason.
judge_rows() {
    [ -s "$2" ] || fails 'the reference has results'
    while IFS=$tab read -r state name why; do
        its=$(awk -F "$tab" -v name="$name" '$2 == name { print $1; exit }' "$1")
        if [ "$its" = passed ]; then
            passes "$name"
        elif [ "$state" = passed ]; then
            fails "$name" "${its:+ }${its:- (did not run)}"
            awk -F "$tab" -v name="$name" '$2 == name { print "    " $3; exit }' "$1"
        else
            skips "$name" "$state with the reference, too: $why"
        fi
    done <"$2"
}

# SOCKET LEFTOVERS REFERENCE HANDLER...: runs critest with these runtimes. The command LEFTOVERS prints what is left, which must not
# be more than what the reference leaves.
critest_with() {
    socket=$1 check=$2 reference=$3 own=$shim
    shift 2
    for handler in "$@"; do
        engine=${engine%%::*}::$handler
        # Limits of the host are no matter of the runtime: it lacks CAP_SYS_RESOURCE here.
        in_net timeout 1800 "$CRITEST_BIN/critest" --runtime-endpoint "unix://$socket" --image-endpoint "unix://$socket" \
            --runtime-handler "$handler" --ginkgo.no-color ${focus:+--ginkgo.focus "$focus"} \
            --ginkgo.json-report "$scratch/$handler.json" >"$scratch/$handler.log" 2>&1 </dev/null
        ginkgo_rows "$scratch/$handler.json" >"$scratch/$handler.rows" || give_up "no report of $handler:" "$scratch/$handler.log"
        [ "$handler" != "$reference" ] || {
            echo "$handler: $(row_counts "$scratch/$handler.rows")"
            $check >"$scratch/base"
            continue
        }
        judge_rows "$scratch/$handler.rows" "$scratch/$reference.rows"
        # Sockets are counted for dayfly's shim only.
        if [ "$handler" = dayfly-shim ]; then shim=$own; else shim=; fi
        [ -n "$shim" ] || rm -f /run/containerd/s/*
        leaves_nothing nothing_left_on_the_host new_leftovers
    done
}
# Without names, of which each pod has its own.
nameless() { sed -E 's/[0-9a-f-]{36,64}/ID/g' | sort; }
new_leftovers() {
    nameless <"$scratch/base" >"$scratch/base.kinds"
    $check | grep -vxFf "$scratch/base" | nameless | comm -23 - "$scratch/base.kinds"
}

# PROGRAM: lists its cases that match $focus, and goes on with them for $handlers: shard HANDLER NAMES runs the cases of the file NAMES.
# Results are kept in $results. After $seconds, no more cases begin, and what there is is judged by runc's. What has failed runs once
# more, because time is short on a loaded machine.
suite_rounds() {
    results=$top/build/$(basename "$bed")
    [ -z "$fresh" ] || rm -rf "$results"
    mkdir -p "$results"
    (cd "$scratch" && "$1" --ginkgo.dry-run --ginkgo.focus "$focus" \
        --ginkgo.skip "${without:-\[(Serial|Flaky|Slow|Disruptive)\]}" \
        --ginkgo.json-report "$scratch/cases.json") >"$scratch/cases.log" 2>&1 &&
        ginkgo_rows "$scratch/cases.json" | cut -f 2 | sort -u >"$scratch/cases" && [ -s "$scratch/cases" ] || give_up 'no cases:' "$scratch/cases.log"
    until [ $(($(date +%s) - begun)) -ge "$seconds" ]; do
        left=
        for handler in $handlers; do
            rows=$results/$handler.rows
            touch "$rows" "$results/$handler.again" "$results/$handler.tried"
            # A case that skips itself has no row.
            sort -u "$results/$handler.tried" | comm -23 "$scratch/cases" - | head -n $((procs * ${each:-10})) >"$scratch/next"
            [ -s "$scratch/next" ] || {
                awk -F "$tab" '$1 !~ "passed|skipped" { print $2 }' "$rows" | grep -vxFf "$results/$handler.again" \
                    >"$scratch/next" && { grep -vF "$(cat "$scratch/next")" "$rows" >"$scratch/kept"; cp "$scratch/kept" "$rows"; }
                cat "$scratch/next" >>"$results/$handler.again"
            }
            [ ! -s "$scratch/next" ] || { left=yes && shard "$handler" "$scratch/next"; }
            progress "$handler: $(wc -l <"$rows") of $(wc -l <"$scratch/cases") cases: $(row_counts "$rows")"
        done
        [ -n "$left" ] || break
    done
    engine=$(basename "$bed" | tr - _)
    for handler in $handlers; do
        [ "$handler" = runc ] || { engine=${engine%%::*}::$handler && judge_rows "$results/$handler.rows" "$results/runc.rows"; }
    done
}
# HANDLER NAMES PROGRAM [FLAG]...: runs the cases of the file NAMES, and adds their rows to the handler's results.
suite_run() {
    handler=$1 names=$2
    # Names are no patterns, some begin as others do, and some have two spaces, which ginkgo has not.
    sed 's/[][().*+?{}|^$\\/]/\\&/g; s/  */ +/g; s/$/$/' "$names" | tr '\n' '|' | sed 's/|$//' >"$scratch/focus"
    program=$3
    shift 3
    rm -f "$scratch/report.json"
    (cd "$scratch" && in_net "$SUITES_BIN/ginkgo" --no-color --procs "$procs" --timeout "${minutes:-20}m" \
        --focus "$(cat focus)" --output-dir "$scratch" \
        --json-report report.json "$program" -- --report-dir "$scratch" "$@") >"$scratch/$handler.log" 2>&1 </dev/null &
    # A shell that waits can be interrupted.
    wait $!
    ginkgo_rows "$scratch/report.json" >"$scratch/rows" && { [ -s "$scratch/rows" ] || grep -q 'Test Suite Passed' "$scratch/$handler.log"; } ||
        give_up "no results of $handler:" "$scratch/$handler.log"
    cat "$scratch/rows" >>"$results/$handler.rows"
    cat "$names" >>"$results/$handler.tried"
}

# Suites leave cgroups of these names.
suite_cgroups() { find /sys/fs/cgroup -maxdepth 2 -type d \( -name 'testing*' -o -name 'nnnnnnnn*' -o -name containerd -o -name k8s.io \); }
suite_cgroups >"$scratch/cgroups"
suite_clean_up() {
    containerd_clean_up
    suite_cgroups | grep -vxFf "$scratch/cgroups" | while read -r group; do find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; done
}

# COMMAND...: runs it in the bed's network namespace.
in_net() { ${holder:+nsenter -t "$holder" -n} "$@"; }

# HOST...: starts a registry that is found under these names, in the bed's namespaces.
suite_registry() {
    authority "$scratch/ca.pem"
    certify "$scratch/registry" "$(printf 'DNS:%s,' "$@" | sed 's/,$//')"
    { echo '127.0.0.1 localhost'; printf "${registry_address:-127.0.0.1} %s\n" "$@"; } >"$scratch/hosts"
    mount --bind "$scratch/hosts" /etc/hosts && in_net ip link set lo up || return
    export SSL_CERT_FILE="$scratch/ca.pem"
    serve_registry registry 443 "  tls: { certificate: $scratch/registry.pem, key: $scratch/registry.key }"
    wait_for 30 in_net bash -c "exec 3<>/dev/tcp/$1/443"
}
# TAG NAME...: pushes an image of the layout under these names.
suite_push() {
    tag=$1
    shift
    for name in "$@"; do in_net skopeo copy -q --insecure-policy "oci:$scratch/suite:$tag" "docker://$name" || return; done
}

# The directories of files that images have beside busybox.
suite_files() {
    mkdir -p "$1/tools/etc" "$1/base/etc" "$1/base/tmp" "$1/base/var/run" "$1/base/usr/bin" "$1/base/usr/local/bin" "$1/agnhost" "$1/web/var/run" "$1/nnp/usr/local/bin"
    chmod 1777 "$1/base/tmp"
    # Users and groups of the images that tests look for.
    printf '%s\n' root:x:0:0:root:/root:/bin/sh www-data:x:33:33:www-data:/var/www:/bin/false \
        default-user:x:1000:1000::/home:/bin/sh nobody:x:65534:65534:nobody:/home:/bin/false >"$1/base/etc/passwd"
    printf '%s\n' root:x:0: www-data:x:33: default-user:x:1000: group-defined-in-image:x:50000:default-user,user-defined-in-image \
        nobody:x:65534: >"$1/base/etc/group"
    mkdir -p "$1/users/etc" "$1/users/bin"
    printf '%s\n' root:x:0:0:root:/root:/bin/sh daemon:x:1:1:daemon:/usr/sbin:/bin/false bin:x:2:2:bin:/bin:/bin/false \
        sys:x:3:3:sys:/dev:/bin/false www-data:x:33:33:www-data:/var/www:/bin/false >"$1/users/etc/passwd"
    printf '%s\n' root:x:0: daemon:x:1: bin:x:2: sys:x:3: wheel:x:10:root www-data:x:33: >"$1/users/etc/group"
    printf '#!/bin/sh\nexec sh "$@"\n' | program "$1/users/bin/bash"
    # Tests call what Debian's busybox lacks, and one masks ls, which must not be busybox itself (its shell runs ls without the file).
    mkdir "$1/base/bin" && cp /bin/busybox "$1/base/bin/ls" || return
    program "$1/base/usr/bin/pgrep" <<'PGREP'
#!/bin/sh
for process in /proc/[0-9]*; do
    read -r name <"$process/comm" && [ "$name" = "$1" ] && echo "${process#/proc/}" && found=yes
done 2>/dev/null
[ -n "$found" ]
PGREP
    program "$1/base/usr/bin/curl" <<'CURL'
#!/bin/sh
# The last argument is the address.
for address; do :; done
exec wget -q -O - "$address"
CURL
    # nmeter -d0 %3t: the time with milliseconds, here that of a new inode.
    printf '#!/bin/sh\nset -- $(stat -L -c %%y /proc/self)\necho "${2%%??????}"\n' | program "$1/base/usr/bin/nmeter"
    printf '#!/bin/sh\nexec cat /proc/sysvipc/shm\n' | program "$1/base/usr/bin/ipcs"
    # This machine's own, with the libraries. Busybox's shell would run its own nc, which has no UDP.
    mkdir "$1/tools/bin" && cp /bin/bash "$1/tools/bin/sh" || return
    for tool in bash dig curl getent nc ss; do
        ! tool=$(command -v $tool) || ldd "$tool" | grep -o '/[^ ]*' | xargs cp -L --parents -t "$1/tools" "$tool" || return
    done
    echo 'hosts: files dns' >"$1/tools/etc/nsswitch.conf"
    certify "$1/agnhost/localhost" DNS:localhost && mv "$1/agnhost/localhost.pem" "$1/agnhost/localhost.crt" && mkdir "$1/agnhost/uploads" || return
    cp "$SUITE_IMAGES_BIN/agnhost" "$1/agnhost/agnhost" && ln -s agnhost "$1/agnhost/agnhost-2" || return
    mkdir -p "$1/kitten/etc" && echo kitten.jpg >"$1/kitten/data.json" && echo 'Alpine Linux' >"$1/kitten/etc/os-release" || return
    # agnhost under nginx's name: tests look for its process, its pid file, and its title.
    cp "$SUITE_IMAGES_BIN/agnhost" "$1/web/nginx" || return
    install -m 6755 "$SUITE_IMAGES_BIN/nonewprivs" "$1/nnp/usr/local/bin/nnp" || return
    mkdir -p "$1/volume/usr/bin" "$1/volume/test_dir" && install -m 4755 /bin/true "$1/volume/usr/bin/passwd" && echo test_content >"$1/volume/test_dir/test_file" && chown 65534:65534 "$1/volume/test_dir"
}

# TAG FILES [UMOCI-OPTION]...: makes an image from busybox and these directories of files, in the layout.
suite_image() {
    tag=$1 parts=$2
    shift 2
    umoci tag --image "$scratch/suite:box" "$tag" || return
    for part in $parts; do
        tar -C "$scratch/suite.files/$part" --owner 0 --group 0 -cf "$scratch/suite.tar" . &&
            umoci raw add-layer --image "$scratch/suite:$tag" "$scratch/suite.tar" >/dev/null || return
    done
    [ $# = 0 ] || umoci config --image "$scratch/suite:$tag" "$@"
}

# Makes the images of Kubernetes' suites and of containerd's, and puts them into the registry.
suite_images() {
    e2e=registry.k8s.io/e2e-test-images tools=gcr.io/k8s-staging-cri-tools its=ghcr.io/containerd
    suite_registry registry.k8s.io k8s.gcr.io gcr.io ghcr.io && cp -r "$scratch/image/layout" "$scratch/suite" &&
        suite_files "$scratch/suite.files" || return
    path=--config.env=PATH=/bin:/usr/bin:/usr/local/bin
    web='echo $$ >/var/run/nginx.pid; echo httpd; exec -a "nginx: master process" /nginx netexec --udp-port -1 --http-port'
    suite_image busybox base "$path" && suite_image users 'base users' "$path" && suite_image agnhost 'base agnhost tools' --config.env=PATH=/usr/bin:/bin:/usr/local/bin --config.entrypoint /agnhost --config.cmd pause &&
        suite_image nginx 'base web' "$path" --config.cmd sh --config.cmd -c --config.cmd "$web 80" &&
        suite_image hostnet 'base web' "$path" --config.cmd sh --config.cmd -c --config.cmd "$web 12003" &&
        suite_image nnp 'base nnp' "$path" --config.cmd nnp &&
        suite_image nonroot 'base agnhost' "$path" --config.user 1234 --config.cmd /agnhost --config.cmd fake-gitserver &&
        suite_image copied 'base users volume' "$path" --config.volume /test_dir --config.cmd tail --config.cmd -f --config.cmd /dev/null &&
        suite_image old-pause 'base agnhost' --config.cmd /agnhost --config.cmd pause &&
        suite_image kitten kitten && suite_image pause agnhost --config.cmd /agnhost --config.cmd pause || return
    suite_push busybox $e2e/busybox:1.29-2 $e2e/busybox:1.37.0-2 && suite_push users $its/busybox:1.36 $its/alpine:3.14.0 &&
        suite_push agnhost $e2e/agnhost:2.55 $e2e/agnhost:2.66.1 $e2e/glibc-dns-testing:2.1.1 &&
        suite_push nginx $e2e/nginx:1.14-2 $e2e/nginx:1.27.0-2 $e2e/nginx:1.28.0-2 $e2e/httpd:2.4.39-4 $its/nginx:1.27.0 &&
        suite_push nnp $e2e/nonewprivs:1.3 $e2e/nonewprivs:1.4 && suite_push nonroot $e2e/nonroot:1.5 &&
        suite_push copied $its/volume-copy-up:2.2 $its/volume-ownership:2.1 &&
        suite_push hostnet $tools/hostnet-nginx-amd64:latest $tools/hostnet-nginx-arm64:latest &&
        suite_push kitten $e2e/kitten:1.8 && suite_push pause registry.k8s.io/pause:3.10.2 && suite_push old-pause registry.k8s.io/pause:3.6 registry.k8s.io/pause:3.9 k8s.gcr.io/pause:3.9 || return
    for user in uid:1002 username:www-data uid-group:1003:1004 username-group:www-data:1004; do
        suite_image "${user%%:*}" base "$path" --config.user "${user#*:}" &&
            suite_push "${user%%:*}" "$tools/test-image-user-${user%%:*}:latest" || return
    done
    suite_image predefined base "$path" --config.user 1000 && suite_push predefined $tools/test-image-predefined-group:latest || return
    for number in 1 2 3 latest; do
        suite_image "test-$number" base "$path" --config.label "number=$number" &&
            suite_push "test-$number" "$tools/test-image-$number:latest" || return
    done
    suite_push test-1 $tools/test-image-tags:1 $tools/test-image-tags:2 $tools/test-image-tags:3 $tools/test-image-tag:test &&
        suite_push test-2 $tools/test-image-tag:all
}
