from smg.sim.throughput import Throughput


def test_it_reports_the_last_full_second():
    meter = Throughput()
    meter.add(30, 10.2)
    meter.add(20, 10.9)
    assert meter.rate(11.1) == 50


def test_a_second_under_way_counts_once_it_has_more():
    meter = Throughput()
    meter.add(5, 10.0)
    meter.add(9, 11.0)
    assert meter.rate(11.5) == 9


def test_silence_brings_it_to_zero():
    meter = Throughput()
    meter.add(30, 10.0)
    assert meter.rate(12.0) == 0
