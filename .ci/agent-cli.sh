#!/bin/sh
# Installs the agent CLI that the claude provider is tested against, at a pinned version: versions differ in ways that
# matter. Does nothing if it is there already.
set -eu
version=2.1.329
case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    Darwin-arm64) platform=darwin-arm64 ;;
    *)
        echo "NO AGENT CLI for $(uname -s) $(uname -m): the tests that need it are skipped" |
            tee -a "${HEARTH_TEST_LEFT_OUT:-/dev/null}" >&2
        exit 0
        ;;
esac
cd "$(dirname "$0")/.."
prefix=target/agent-cli
package=@anthropic-ai/claude-code-$platform
manifest=$prefix/node_modules/$package/package.json
if [ -f "$manifest" ] && grep -q "\"version\": *\"$version\"" "$manifest"; then
    echo "agent CLI $version is there: $prefix/node_modules/$package/claude"
    exit 0
fi
npm install --prefix "$prefix" --no-save --no-audit --no-fund "$package@$version"
"$prefix/node_modules/$package/claude" --version
