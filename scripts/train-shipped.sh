#!/bin/sh
# The shipped models, from nothing: sh scripts/train-shipped.sh single|any|multi|networks-single|networks-multi|rivals
# One thread each, so that two of these run side by side on two cores. A finished or broken run is resumed, not repeated.
set -eu
export OMP_NUM_THREADS=1
bayesmri=${BAYESMRI:-.venv/bin/bayesmri}

run() { # run NAME CONFIG OPTIONS...
  name=$1 config=$2
  shift 2
  train --train.clock false --train.max_minutes none "$@"
}

timed() { # timed NAME CONFIG MINUTES OPTIONS...: the schedule follows the clock, so that speed decides how far it comes
  name=$1 config=$2 minutes=$3
  shift 3
  train --train.clock true --train.max_minutes "$minutes" --train.iterations 20000 "$@"
}

train() {
  again=
  if [ -d "runs/$name" ]; then again=--resume; fi
  # shellcheck disable=SC2086
  "$bayesmri" train "configs/$config.toml" --out "runs/$name" $again --train.threads 1 "$@"
}

longer="--train.batch 1 --optimizer.clip 0.2"
lines="--data.patch_rows 64 --data.patch_cols none"  # whole lines: as many central ones as in a reconstruction
bayes="--posterior.beta 1e-8 --posterior.L0 0.01 --posterior.lr 3e-4 --train.batch 1"

case $1 in
single)
  run single-start small-single-r4 --train.iterations 2138
  run single-r4 small-single-r4 --train.init_from runs/single-start --train.batch 1 --train.iterations 2500 \
    --unroll.S_start 8 --unroll.S_every 800 --unroll.S_max 10 --optimizer.lr 2e-3 --optimizer.lr_T 0.1
  run tdv-single-r4 small-single-r4-bayes --train.init_from runs/single-r4 --train.iterations 1700 $bayes \
    --optimizer.lr 1.5e-3 --unroll.keep h --unroll.S_start 15 --unroll.S_max 15
  run tdv-single-r8 small-single-r4-bayes --train.init_from runs/tdv-single-r4 --train.iterations 700 $bayes \
    --optimizer.lr 1e-3 --unroll.S_start 15 --unroll.S_max 15 --mask.acceleration 8
  ;;
multi)
  run multi-start small-multi-r4 --train.iterations 2000
  run multi-more small-multi-r4 --train.init_from runs/multi-start --train.batch 1 --train.iterations 350 \
    --optimizer.lr 1.5e-3 --unroll.S_start 6
  run multi-r4 small-multi-r4 --train.init_from runs/multi-more --train.batch 1 --train.iterations 2800 \
    --unroll.S_start 8 --unroll.S_max 8 --optimizer.lr 2e-3 --optimizer.lr_T 0.1
  run multi-first small-multi-r4-bayes --train.init_from runs/multi-r4 --train.iterations 1600 $bayes \
    --optimizer.lr 1.5e-3 --unroll.keep h --unroll.S_start 12 --unroll.S_max 12
  run multi-second small-multi-r4-bayes --train.init_from runs/multi-first --train.iterations 900 $bayes \
    --optimizer.lr 1.2e-3 --unroll.keep h --unroll.S_start 14 --unroll.S_max 14
  sense="--unroll.S_start 14 --unroll.S_max 14 --unroll.start sense"
  run multi-third small-multi-r4-bayes --train.init_from runs/multi-second --train.iterations 1500 $bayes $sense \
    --optimizer.lr 1.2e-3
  run tdv-multi-r4 small-multi-r4-bayes --train.init_from runs/multi-third --train.iterations 1000 $bayes $sense $lines \
    --posterior.lr 1e-4 --optimizer.lr 1e-3
  run tdv-multi-r8 small-multi-r4-bayes --train.init_from runs/multi-third --train.iterations 700 $bayes $sense $lines \
    --optimizer.lr 1e-3 --mask.acceleration 8
  ;;
any) # after single: one coil and any array, sensitivities in the operator
  for R in 4 8; do
    timed "any-r$R-first" "tdv-r$R" 30 --train.init_from "runs/tdv-single-r$R" \
      --unroll.S_start 15 --unroll.S_max 15 --unroll.rho0 3.5 --unroll.momentum0 none
    timed "any-r$R" "tdv-r$R" 48 --train.init_from "runs/any-r$R-first"
    run "any-r$R-bayes" "tdv-r$R-bayes" --train.init_from "runs/any-r$R" --train.iterations 500
    run "any-r$R-spread" "tdv-r$R-bayes" --train.init_from "runs/any-r$R" --train.init_L_from "runs/any-r$R-bayes" \
      --optimizer.lr 0 --train.iterations 250
    run "tdv-r$R" "tdv-r$R-bayes" --train.init_from "runs/any-r$R-spread" --train.iterations 1 \
      --unroll.keep h --unroll.S_start 16 --unroll.S_max 16 --optimizer.lr 0 --posterior.lr 0
  done
  ;;
networks-single)
  run unet-start small-unet-single --train.iterations 1600
  run unet-single small-unet-single --train.init_from runs/unet-start --train.iterations 2500 --optimizer.lr 1e-3
  run varnet-start small-varnet-single --train.iterations 900
  timed varnet-first small-varnet-single 10 --train.init_from runs/varnet-start --optimizer.lr 1.5e-3
  timed varnet-single small-varnet-single 45 --train.init_from runs/varnet-first $longer --optimizer.lr 1.2e-3
  run irim-start small-irim-single --train.iterations 600
  timed irim-more small-irim-single 11 --train.init_from runs/irim-start --optimizer.lr 1.5e-3 --train.batch 1
  timed irim-most small-irim-single 22 --train.init_from runs/irim-more --optimizer.lr 1.2e-3 --train.batch 1
  timed irim-single small-irim-single 22 --train.init_from runs/irim-most $longer --optimizer.lr 1e-3
  timed sigmanet-start small-sigmanet-single 10
  timed sigmanet-more small-sigmanet-single 27 --train.init_from runs/sigmanet-start $longer --optimizer.lr 8e-4
  timed sigmanet-single small-sigmanet-single 22 --train.init_from runs/sigmanet-more $longer --optimizer.lr 8e-4
  ;;
networks-multi)
  timed unet-multi-start small-unet-multi 12
  timed unet-multi small-unet-multi 8 --train.init_from runs/unet-multi-start $longer $lines --optimizer.lr 1e-3
  timed varnet-more small-varnet-multi 12
  timed varnet-most small-varnet-multi 14 --train.init_from runs/varnet-more --train.batch 1 --optimizer.lr 1.5e-3
  timed varnet-last small-varnet-multi 22 --train.init_from runs/varnet-most --train.batch 1 --optimizer.lr 1e-3
  timed varnet-multi small-varnet-multi 40 --train.init_from runs/varnet-last $longer $lines --optimizer.lr 1e-3
  timed irim-multi-start small-irim-multi 12 --train.batch 1
  timed irim-multi-more small-irim-multi 27 --train.init_from runs/irim-multi-start --train.batch 1 --optimizer.lr 1.5e-3
  timed irim-multi small-irim-multi 32 --train.init_from runs/irim-multi-more $longer $lines --optimizer.lr 1.2e-3
  timed sigmanet-multi-start small-sigmanet-multi 12 --train.batch 1 --model.maps centre
  timed sigmanet-multi-more small-sigmanet-multi 35 --train.init_from runs/sigmanet-multi-start --train.batch 1 \
    --model.maps centre --optimizer.lr 1.5e-3
  timed sigmanet-multi-most small-sigmanet-multi 20 --train.init_from runs/sigmanet-multi-more $longer \
    --optimizer.lr 5e-4
  timed sigmanet-multi-last small-sigmanet-multi 45 --train.init_from runs/sigmanet-multi-most $longer \
    --optimizer.lr 8e-4
  timed sigmanet-multi small-sigmanet-multi 25 --train.init_from runs/sigmanet-multi-last $longer $lines \
    --optimizer.lr 5e-4
  ;;
rivals) # after networks-single
  for kind in mcdropout heteroscedastic; do
    run "$kind" "small-unet-$kind-single-r4" --train.init_from runs/unet-single --train.iterations 900 --optimizer.lr 1e-3
  done
  for seed in 1 2 3; do
    run "ensemble-$seed" small-tdv-ensemble-single-r4 --seed "$seed" --train.iterations 550 \
      --unroll.S_every 100 --unroll.S_max 8
  done
  ;;
*)
  echo "$1: want single, any, multi, networks-single, networks-multi or rivals" >&2
  exit 2
  ;;
esac
