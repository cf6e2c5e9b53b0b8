#!/bin/bash
# tests/rivals/one_process measures small models without PyTorch, and makes its tables from recorded
# rounds.
set -euo pipefail
programs=$PWD
one_process=$PWD/tests/rivals/one_process
cd "$TEST_TMPDIR"
if ! python3 --version >/dev/null 2>&1; then
  echo "skipped: needs python3"
  exit 0
fi

# fits FILE: fails if a line is longer than 80 characters.
fits() {
  if grep -nE '^.{81}' "$1"; then exit 1; fi
}

# product SECONDS KERNEL_SECONDS: prints 12 products of 6 GFLOP together, which two kernels compute.
product() {
  echo "{\"count\": 12, \"seconds\": $1, \"flops\": 6e9,
    \"kernels\": {\"onednn_via_f32\": 9, \"onednn_gemm_via_f32\": $2}}"
}

# program SECONDS MIB [MORE]: prints the results of a program in a round.
program() { echo "{\"seconds\": $1, \"loss\": 10.8, \"peak_bytes\": $(($2 << 20)) ${3-}}"; }

# round DTYPE OUR_SECONDS TORCH_SECONDS FC2_DX_SECONDS
round() {
  echo "{\"dtype\": \"$1\", \"others\": 0.04, \"programs\": {
      \"ours\": $(program "$2" 2100 ', "traced_seconds": 0.6'),
      \"PyTorch\": $(program "$3" 3000 ', "version": "2.15.0"'),
      \"starting commit\": $(program 0.8 2800)},
    \"products\": {\"fc dX\": $(product 0.06 0.06), \"fc dW\": $(product 0.05 0.06),
      \"fc2 dX\": $(product "$4" 0.0625), \"fc2 dW\": $(product 0.05 0.05)}}"
}

cat >record.json <<END
{"model": "124m", "processor": "a processor", "amx": true, "bf16": true, "pytorch": true,
 "threads": 2, "flags": ["--seed=2"],
 "rounds": [$(round f32 0.5 0.8 0.1), $(round f32 0.4 0.5 0.05), $(round f32 0.5 0.75 0.08),
            $(round bf16 0.04 0.1 0.06)]}
END
"$one_process" --recorded=record.json >table
cat table
fits table
tr -s ' ' <table >cells
grep -qF "GPT-2 124m, batches of 4 x 256, AdamW; PyTorch 2.15.0" cells
grep -qF "a processor, AMX, bf16; threads: 2" cells
grep -qF "other programs kept 0.0 to 0.0 cores busy" cells
grep -qF "medians of rounds: 3 with f32, 1 with bf16" cells
grep -qF "ours with --seed=2" cells
grep -qxF " ours 2048.0 25.0% 2.05" cells
grep -qxF " PyTorch 1365.3 56.2% 1.50 1.25-1.60 >= 1.3 2.93 0.70 <= 0.7" cells
grep -qxF " starting commit 1280.0 0.0% 1.60 1.60-2.00 2.73 0.75" cells
grep -qxF " PyTorch 10240 0.0% 2.50 2.50-2.50 >= 2.1 2.93 0.70 <= 0.7" cells
grep -qxF "fc2 dX 12 80.0 75.0 62.5 96.0 0.78 onednn_gemm_via_f32" cells
grep -qxF "all 48 240.0 100.0 232.5 103.2 0.97" cells
grep -qxF "step 600.0 ms, its products 240.0 ms; at their best rates 232.5 ms," cells
grep -qxF "the limit of the step, of which it reaches 39%" cells
grep -qxF "rate of fc2 over that of fc: dX 0.75, dW 1.00; aim >= 0.9" cells

sed 's/"bf16": true/"bf16": false/' record.json >old_processor.json
"$one_process" --recorded=old_processor.json >table
fits table
grep -qxF "left out: bf16 of PyTorch, for which the processor has no instructions" table

"$one_process" --short --steps=1 --threads=1 --dtype=f32 --no_pytorch --programs="$programs" \
  --ours="again=$programs/models/gpt/train" --flags='--seed=2' --json=measured.json >table
cat table
fits table
tr -s ' ' <table >cells
grep -qE "^GPT-2 tiny, batches of 2 x 32, AdamW; without PyTorch$" cells
grep -qE "^ again [0-9.]+ 0.0% [0-9.]+ [0-9.]+-[0-9.]+ [0-9.]+ [0-9.]+$" cells
for product in {qkv,proj,fc,fc2}{,' dX',' dW'}; do
  grep -qE "^$product 2( [0-9.]+){5} (onednn|highway)" cells
done
for product in head 'head dX dW'; do grep -qE "^$product 1( [0-9.]+){5} onednn" cells; done
if grep -qE "^other [0-9]" cells; then exit 1; fi
"$one_process" --recorded=measured.json | cmp - table

# part SECONDS: prints 13 instructions of 90 GFLOP together.
part() { echo "{\"count\": 13, \"seconds\": $1, \"flops\": 9e10}"; }
cat >record.json <<END
{"model": "vgg16", "processor": "a processor", "amx": false, "bf16": true, "pytorch": true,
 "threads": 2, "flags": [],
 "rounds": [{"dtype": "bf16", "others": 0, "programs": {
      "ours": $(program 4 1600 ', "traced_seconds": 4.5'),
      "PyTorch": $(program 5 3200 ', "version": "2.15.0"')},
    "parts": {"convolution": $(part 0.9), "relu": $(part 0.45)}}]}
END
"$one_process" --recorded=record.json >table
cat table
fits table
tr -s ' ' <table >cells
grep -qF "VGG16, batches of 16 x 224 x 224, SGD; PyTorch 2.15.0" cells
grep -qxF " pictures/s spread over highest aim GiB over aim" cells
grep -qxF " PyTorch 3.2 0.0% 1.25 1.25-1.25 >= 1.1 3.12 0.50 <= 0.8" cells
grep -qxF "bf16: parts of our step of 4500.0 ms" cells
grep -qxF "convolution 13 900.0 20.0% 100.0" cells
grep -qxF "relu 13 450.0 10.0%" cells

"$one_process" --model=vgg16 --short --steps=1 --threads=1 --dtype=f32 --no_pytorch \
  --programs="$programs" >table
cat table
fits table
tr -s ' ' <table >cells
grep -qF "VGG16 on small pictures, batches of 2 x 32 x 32, SGD; without PyTorch" cells
for convolution in convolution{,' dX',' dW'}; do
  grep -qE "^$convolution 1[23]( [0-9.]+){2}% [0-9.]+$" cells
done
for part in bias relu pool 'flat layers' optimizer; do
  grep -qE "^$part [0-9]+( [0-9.]+){2}%$" cells
done

"$one_process" --help >help
grep -q -- --recorded help
for flag in --rounds=0 --steps=0 --threads=0 --dtype=f16 --dtype=f32,f32 --model=gpt --ours=nowhere \
  --ours="PyTorch=$programs/models/gpt/train" --flags="'" --recorded=nowhere --nothing; do
  if "$one_process" "$flag" 2>err; then exit 1; fi
  grep -q "^error: " err
  (($(wc -l <err) == 1))
done
if "$one_process" --short --no_pytorch --programs="$programs" --flags=--nothing 2>err; then exit 1; fi
grep -q "there is no flag '--nothing'" err
