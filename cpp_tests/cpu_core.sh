#!/usr/bin/env bash
# The CPU core and its tests by themselves: no torch, no CMake, in ways that the ordinary build does
# not cover. From any folder:
#
#   cpp_tests/cpu_core.sh sanitize [folder]   AddressSanitizer and UndefinedBehaviorSanitizer, run
#   cpp_tests/cpu_core.sh valgrind [folder]   valgrind, which knows no AVX-512: the lower levels
#   cpp_tests/cpu_core.sh aarch64 [folder]    cross-compiled for aarch64, run under qemu
#   cpp_tests/cpu_core.sh emulate [folder]    level amx in software (amx_in_software.h), run
#   cpp_tests/cpu_core.sh bundle folder       static programs, to be carried to another machine
#
# What is built stays in `folder`, by default /tmp/tiled-mm-<mode>. $CXX names another compiler than
# g++, clang++ for example. GoogleTest comes from its sources in $GTEST (/usr/src/googletest, Debian's
# package googletest). aarch64 needs g++-aarch64-linux-gnu and qemu-user. In a bundle, run.sh runs
# every test.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
mode=${1:-}
out=${2:-/tmp/tiled-mm-$mode}
gtest=${GTEST:-/usr/src/googletest}/googletest
cxx=${CXX:-g++}
link=()
filter=*
case $mode in
  sanitize) flags=(-O1 -fsanitize=address,undefined -fno-sanitize-recover=all) ;;
  valgrind) flags=(-O2) filter='*base*:*avx2_*:*/avx2:Level*:Blocked*' ;;
  aarch64) flags=(-O3) cxx=aarch64-linux-gnu-g++ link=(-static) ;;
  emulate) flags=(-O2) filter='*amx*:*/amx' ;;
  bundle) flags=(-O3) link=(-static) ;;
  *)
    sed -n '2,15s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
for need in "$cxx" $([ "$mode" = aarch64 ] && echo qemu-aarch64) \
  $([ "$mode" = valgrind ] && echo valgrind); do
  command -v "$need" > /dev/null || { echo "cpu_core.sh: skipped, $need is not installed"; exit 77; }
done
[ -d "$gtest/src" ] || { echo "cpu_core.sh: skipped, no GoogleTest sources in $gtest"; exit 77; }
ccache=$(command -v ccache || true)
mkdir -p "$out"

compile() {  # object, source, further flags
  $ccache "$cxx" -std=c++17 -g -I"$root/ops" -I"$root/cpp_tests" -isystem "$gtest/include" \
    "${flags[@]}" "${@:3}" -c "$2" -o "$1"
}

avx2=(-mavx2 -mfma -mf16c)
avx512=("${avx2[@]}" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
objects=()
for source in "$root"/ops/cpu/*.cpp; do
  name=$(basename "$source" .cpp)
  level=()
  case $name in
    avx2) level=("${avx2[@]}") ;;
    avx512) level=("${avx512[@]}") ;;
    avx512_bf16) level=("${avx512[@]}" -mavx512bf16) ;;
    avx512_vnni) level=("${avx512[@]}" -mavx512vnni) ;;
    amx) level=("${avx512[@]}" -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8) ;;
  esac
  [ "$mode" = aarch64 ] && [ ${#level[@]} -gt 0 ] && continue
  if [ "$mode" = emulate ] && [[ "$name" = amx || "$name" = dispatch ]]; then
    level+=(-include "$root/cpp_tests/amx_in_software.h")
  fi
  compile "$out/$name.o" "$source" -ffp-contract=fast "${level[@]}"
  objects+=("$out/$name.o")
done
compile "$out/gtest.o" "$gtest/src/gtest-all.cc" -I"$gtest"
compile "$out/gtest_main.o" "$gtest/src/gtest_main.cc"

tests=()
for source in "$root"/cpp_tests/test_cpu_*.cpp; do
  name=$(basename "$source" .cpp)
  compile "$out/$name.o" "$source"
  "$cxx" "${flags[@]}" "${link[@]}" "$out/$name.o" "${objects[@]}" "$out"/gtest{,_main}.o -pthread \
    -o "$out/$name"
  tests+=("$name")
done

if [ "$mode" = bundle ]; then
  rm -f "$out"/*.o
  cat > "$out/run.sh" << 'END'
#!/bin/sh
# Every level that this CPU has; the others are skipped by name.
cd "$(dirname "$0")" || exit 1
grep -m1 'model name' /proc/cpuinfo
status=0
for test in ./test_cpu_*; do "$test" --gtest_brief=1 || status=1; done
for level in base avx2 avx512 avx512_bf16 amx; do
  TILED_MM_CPU_LEVEL=$level ./test_cpu_dispatch --gtest_brief=1 > level.log 2>&1
  case $?-$(cat level.log) in
    0-*) echo "level $level: here" ;;
    *"but this CPU has"*) echo "level $level: not on this CPU" ;;
    *) cat level.log; status=1 ;;
  esac
done
exit $status
END
  chmod +x "$out/run.sh"
  echo "cpu_core.sh: carry $out and run $out/run.sh"
  exit 0
fi
for test in "${tests[@]}"; do
  echo "== $mode: $test"
  case $mode in
    sanitize) "$out/$test" --gtest_brief=1 ;;
    emulate) "$out/$test" --gtest_brief=1 --gtest_filter="$filter" ;;
    valgrind) valgrind -q --error-exitcode=1 "$out/$test" --gtest_brief=1 --gtest_filter="$filter" ;;
    aarch64) qemu-aarch64 "$out/$test" --gtest_brief=1 ;;
  esac
done
