#!/bin/sh
# The shipped models, from nothing: sh scripts/train-shipped.sh single|multi|networks-single|networks-multi|rivals
# One thread each, so that two of these run side by side on two cores. A finished or broken run is resumed, not repeated.
set -eu
export OMP_NUM_THREADS=1
bayesmri=${BAYESMRI:-.venv/bin/bayesmri}

run() { # run NAME CONFIG OPTIONS...
  name=$1 config=$2
  shift 2
  again=
  if [ -d "runs/$name" ]; then again=--resume; fi
  # shellcheck disable=SC2086
  "$bayesmri" train "configs/$config.toml" --out "runs/$name" $again --train.clock false --train.max_minutes none \
    --train.threads 1 "$@"
}

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
  run tdv-multi-r4 small-multi-r4-bayes --train.init_from runs/multi-first --train.iterations 900 $bayes \
    --optimizer.lr 1.2e-3 --unroll.keep h --unroll.S_start 14 --unroll.S_max 14
  run tdv-multi-r8 small-multi-r4-bayes --train.init_from runs/tdv-multi-r4 --train.iterations 300 $bayes \
    --optimizer.lr 1e-3 --unroll.S_start 14 --unroll.S_max 14 --mask.acceleration 8
  ;;
networks-single | networks-multi)
  for kind in unet varnet irim sigmanet; do
    run "$kind-${1#networks-}" "small-$kind-${1#networks-}"
  done
  ;;
rivals)
  run mcdropout small-unet-mcdropout-single-r4
  run heteroscedastic small-unet-heteroscedastic-single-r4
  for seed in 1 2 3; do
    run "ensemble-$seed" small-tdv-ensemble-single-r4 --seed "$seed"
  done
  ;;
*)
  echo "$1: want single, multi, networks-single, networks-multi or rivals" >&2
  exit 2
  ;;
esac
